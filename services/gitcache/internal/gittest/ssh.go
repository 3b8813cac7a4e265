package gittest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// SSHServer serves repositories by a real sshd, which lets in the user that runs the tests and runs
// git-upload-pack only.
type SSHServer struct {
	URL string // ssh://user@127.0.0.1:port
	// Identity may log in, and KnownHosts knows the server, by its ed25519 key.
	Identity, KnownHosts string

	dir      string // of the repositories
	state    string // configuration, keys, log, faults
	listener net.Listener
}

// Kinds of keys.
const (
	ED25519 = "ed25519"
	ECDSA   = "ecdsa"
	RSA     = "rsa"
)

// NewSSHServer starts a server that ends with the test.
func NewSSHServer(t testing.TB) *SSHServer {
	t.Helper()
	s := &SSHServer{dir: t.TempDir(), state: t.TempDir()}
	account, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if s.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.URL = "ssh://" + account.Username + "@" + s.listener.Addr().String()
	key := NewKey(t, ED25519)
	s.Identity = PrivatePEM(t, key, "")
	s.Authorize(t, key)
	s.UseHostKeys(t, ED25519)
	writeProgram(t, s.path("serve"), strings.NewReplacer("@STATE@", s.state, "@ROOT@", s.dir, "@PATH@", os.Getenv("PATH")).Replace(serveScript))
	writeProgram(t, s.path("pack"), strings.ReplaceAll(packScript, "@STATE@", s.state))
	s.write(t, "log", "")
	s.run(t)
	return s
}

// serveScript takes the command as a login shell would, so that what was not quoted well shows.
const serveScript = `#!/bin/sh
PATH='@PATH@' GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export PATH GIT_CONFIG_NOSYSTEM GIT_CONFIG_GLOBAL
echo session >>'@STATE@/log'
root='@ROOT@'
eval "set -- $SSH_ORIGINAL_COMMAND"
if [ "$#" != 2 ] || [ "$1" != git-upload-pack ]; then
	echo "this account runs git-upload-pack only" >&2
	exit 128
fi
[ ! -e '@STATE@/fault' ] || . '@STATE@/fault'
exec git -c uploadpack.packObjectsHook='@STATE@/pack' upload-pack "$root/${2#/}"
`

// packScript is run by git to make a pack.
const packScript = `#!/bin/sh
echo fetch >>'@STATE@/log'
[ ! -e '@STATE@/packfault' ] || . '@STATE@/packfault'
exec "$@"
`

const sshdConfig = `ListenAddress 127.0.0.1
AuthorizedKeysFile @STATE@/authorized_keys
ForceCommand @STATE@/serve
AuthenticationMethods publickey
PermitRootLogin prohibit-password
AcceptEnv GIT_PROTOCOL
SetEnv SHLVL=1
StrictModes no
UsePAM no
UseDNS no
PidFile none
PrintMotd no
LogLevel ERROR
`

func (s *SSHServer) path(name string) string { return filepath.Join(s.state, name) }

// write makes a file in which pairs of words are replaced.
func (s *SSHServer) write(t testing.TB, name, content string, replace ...string) {
	t.Helper()
	content = strings.NewReplacer(replace...).Replace(content)
	if err := os.WriteFile(s.path(name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeProgram makes a script that can be executed at once. Another process writes it: what this one has open for
// writing, a child that another test forks at that moment has, too, and then the system says that the file is busy.
func writeProgram(t testing.TB, path, script string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "install", "-m", "700", "/dev/stdin", path)
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("write %s: %v: %s", path, err, out)
	}
}

// run gives every connection an sshd of its own, as inetd does: no port to guess, nothing left behind.
func (s *SSHServer) run(t testing.TB) {
	t.Helper()
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd = "/usr/sbin/sshd" // seldom in a user's PATH
	}
	if _, err := os.Stat(sshd); err != nil {
		t.Fatal("no sshd here: run `make install`, or install openssh-server")
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { //nolint:gosec // where sshd locks itself up
			t.Fatal(err)
		}
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := s.listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.serve(t, sshd, conn.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		s.SetFault("", "")
		_ = s.listener.Close()
		running.Wait()
	})
}

func (s *SSHServer) serve(t testing.TB, sshd string, conn *net.TCPConn) {
	socket, err := conn.File()
	_ = conn.Close()
	if err != nil {
		t.Error(err)
		return
	}
	defer socket.Close()
	cmd := exec.CommandContext(t.Context(), sshd, "-i", "-f", s.path("config"), "-E", s.path("sshd.log"))
	cmd.Stdin, cmd.Stdout = socket, socket
	_ = cmd.Run() // with what the client made of it
	if b, err := os.ReadFile(s.path("sshd.log")); err == nil && len(b) > 0 && testing.Verbose() {
		t.Logf("sshd: %s", b)
	}
}

// NewRepo makes an empty repository whose default branch is main.
func (s *SSHServer) NewRepo(t testing.TB, name string) *Repo {
	t.Helper()
	return newRepo(t, s.dir, s.URL, name)
}

// Authorize lets one more key in.
func (s *SSHServer) Authorize(t testing.TB, key crypto.Signer) {
	t.Helper()
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	old, _ := os.ReadFile(s.path("authorized_keys"))
	s.write(t, "authorized_keys", string(old)+string(ssh.MarshalAuthorizedKey(public)))
}

// UseHostKeys gives the server new keys. UseHostKeys returns the lines by which they are known, in that order;
// KnownHosts gets the first.
func (s *SSHServer) UseHostKeys(t testing.TB, kinds ...string) (lines []string) {
	t.Helper()
	var config strings.Builder
	config.WriteString(sshdConfig)
	for _, kind := range kinds {
		key := NewKey(t, kind)
		s.write(t, "host_"+kind, PrivatePEM(t, key, ""))
		if err := os.Chmod(s.path("host_"+kind), 0o600); err != nil {
			t.Fatal(err)
		}
		config.WriteString("HostKey @STATE@/host_" + kind + "\n")
		lines = append(lines, s.KnownHostsLine(t, key))
	}
	s.write(t, "config", config.String(), "@STATE@", s.state)
	s.KnownHosts = lines[0] + "\n"
	return lines
}

// KnownHostsLine says that the server has a key.
func (s *SSHServer) KnownHostsLine(t testing.TB, key crypto.Signer) string {
	t.Helper()
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return knownhosts.Line([]string{s.listener.Addr().String()}, public)
}

// UseHostCertificate makes the server show a certificate by this authority, for a host called so.
func (s *SSHServer) UseHostCertificate(t testing.TB, authority crypto.Signer, host string) {
	t.Helper()
	key := NewKey(t, ED25519)
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromSigner(authority)
	if err != nil {
		t.Fatal(err)
	}
	cert := &ssh.Certificate{Key: public, CertType: ssh.HostCert, ValidPrincipals: []string{host}, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(rand.Reader, signer); err != nil {
		t.Fatal(err)
	}
	s.write(t, "host_cert_key", PrivatePEM(t, key, ""))
	if err := os.Chmod(s.path("host_cert_key"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.write(t, "host_cert", string(ssh.MarshalAuthorizedKey(cert)))
	s.write(t, "config", sshdConfig+"HostKey @STATE@/host_cert_key\nHostCertificate @STATE@/host_cert\n", "@STATE@", s.state)
}

// Count returns how often git-upload-pack was run ("session"), and how often it made a pack ("fetch").
func (s *SSHServer) Count(service string) int {
	b, _ := os.ReadFile(s.path("log"))
	return strings.Count(string(b), service+"\n")
}

// SetFault makes the server misbehave. Both arguments are lines of shell: command is run before git-upload-pack, with
// the repository's path in $2, and pack before a pack is made by "$@". Empty: none.
func (s *SSHServer) SetFault(command, pack string) {
	for name, script := range map[string]string{"fault": command, "packfault": pack} {
		_ = os.Remove(s.path(name))
		if script == "" {
			continue
		}
		if err := os.WriteFile(s.path(name), []byte(script+"\n"), 0o600); err != nil {
			panic(err)
		}
	}
}

// Faults for SetFault.
const (
	// SSHHangAfterList never answers what comes after the list of refs.
	SSHHangAfterList = `git upload-pack --advertise-refs "$root/${2#/}"; exec cat >/dev/null`
	// SSHEndlessList is a list of refs that has no end.
	SSHEndlessList = `id=1111111111111111111111111111111111111111
printf '0048%s refs/heads/a\0side-band-64k\n' $id
exec yes "$(printf '003a%s refs/heads/a' $id)"`
)

// SSHSay is a fault that says something instead of serving.
func SSHSay(text string) string { return fmt.Sprintf("echo '%s' >&2; exit 1", text) }

// SSHTruncate is a fault of packs: they end after n bytes.
func SSHTruncate(n int) string { return fmt.Sprintf(`"$@" | head -c %d; exit 0`, n) }

// SSHStall is a fault of packs: they begin and come no further until the fault is taken back.
func (s *SSHServer) SSHStall() string {
	return fmt.Sprintf(`"$@" | head -c 40; while [ -e '%s' ]; do sleep 0.1; done; exit 1`, s.path("packfault"))
}

// NewKey makes a private key.
func NewKey(t testing.TB, kind string) crypto.Signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch kind {
	case RSA:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case ECDSA:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// PrivatePEM is a private key as ssh-keygen writes it, locked if there is a passphrase.
func PrivatePEM(t testing.TB, key crypto.Signer, passphrase string) string {
	t.Helper()
	var block *pem.Block
	var err error
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(key, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block))
}
