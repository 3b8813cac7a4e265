package gitssh

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"fairlead.dev/services/gitcache/internal/upstream"
)

// login is what it takes to log in to one host, and to know it.
type login struct {
	signer ssh.Signer
	known  ssh.HostKeyCallback
	// algorithms are those of the host keys that are known, so that a host with several shows one of
	// them. Empty: the host is not known.
	algorithms []string
}

// keyring keeps what was made of identities and known hosts: a passphrase costs a tenth of a second of
// CPU and more each time, too much for every poll.
type keyring struct {
	dir string

	mu     sync.Mutex // guards logins
	logins map[[sha256.Size]byte]*login
}

// maxLogins bounds the keyring, far above the number of sources with ssh that one replica polls.
const maxLogins = 4096

// loginOf is made of the Remote's credentials. login fails closed: without known hosts there is none.
func (k *keyring) loginOf(r upstream.Remote) (*login, error) {
	c := r.Credentials
	switch {
	case c.Identity == "":
		return nil, &upstream.Error{Kind: upstream.KindCredentials, Message: fmt.Sprintf(
			"ssh to %s needs a private key. Put it as identity%s, and the host's keys as known_hosts beside it", r.URL.Host, intoSecret(r))}
	case strings.TrimSpace(c.KnownHosts) == "":
		return nil, &upstream.Error{Kind: upstream.KindCredentials, Message: fmt.Sprintf(
			"secret %q has no known_hosts, so nothing tells the true %s from a false one. Put the output of %q there, after comparing it with the keys that the host's operator publishes",
			r.Secret, r.URL.Host, keyscanCommand(r))}
	}
	address := upstream.HostPort(r.URL)
	sum := sha256.Sum256([]byte(strings.Join([]string{address, c.Identity, c.Passphrase, c.KnownHosts}, "\x00")))
	k.mu.Lock()
	l := k.logins[sum]
	k.mu.Unlock()
	if l != nil {
		return l, nil
	}
	l, err := k.newLogin(r, address)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.logins == nil || len(k.logins) >= maxLogins {
		k.logins = map[[sha256.Size]byte]*login{}
	}
	k.logins[sum] = l
	return l, nil
}

func intoSecret(r upstream.Remote) string {
	if r.Secret == "" {
		return " into a secret, name that in the source"
	}
	return fmt.Sprintf(" into secret %q", r.Secret)
}

// keyscanCommand is the command that shows a host's keys.
func keyscanCommand(r upstream.Remote) string {
	if port := r.URL.Port(); port != "" && port != "22" {
		return "ssh-keyscan -p " + port + " " + r.URL.Hostname()
	}
	return "ssh-keyscan " + r.URL.Hostname()
}

func (k *keyring) newLogin(r upstream.Remote, address string) (*login, error) {
	signer, err := newSigner(r)
	if err != nil {
		return nil, err
	}
	l := &login{signer: signer}
	if l.known, err = k.knownHosts(r, r.Credentials.KnownHosts); err != nil {
		return nil, err
	}
	plain, authorities := splitAuthorities(r.Credentials.KnownHosts)
	for _, part := range []struct {
		text  string
		names func(keyType string) []string
	}{{plain, keyAlgorithms}, {authorities, func(string) []string { return certificateAlgorithms() }}} {
		known, err := k.knownHosts(r, part.text)
		if err != nil {
			return nil, err
		}
		for _, keyType := range wantedTypes(known, address) {
			l.algorithms = append(l.algorithms, part.names(keyType)...)
		}
	}
	l.algorithms = slices.Compact(l.algorithms)
	return l, nil
}

// newSigner reads the private key.
func newSigner(r upstream.Remote) (ssh.Signer, error) {
	key, phrase := []byte(r.Credentials.Identity), []byte(r.Credentials.Passphrase)
	signer, err := ssh.ParsePrivateKey(key)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		if len(phrase) == 0 {
			return nil, badIdentity(r, "is locked with a passphrase. Put it as passphrase into the secret")
		}
		signer, err = ssh.ParsePrivateKeyWithPassphrase(key, phrase)
	}
	switch {
	case errors.Is(err, x509.IncorrectPasswordError):
		return nil, badIdentity(r, "can't be unlocked. Correct the passphrase in the secret")
	case err != nil:
		// The parser's error could quote the key.
		return nil, badIdentity(r, "can't be read. Put a private key there as ssh-keygen makes it: ed25519, ecdsa or rsa")
	case signer.PublicKey().Type() != ssh.KeyAlgoRSA:
		return signer, nil
	}
	algorithms, ok := signer.(ssh.AlgorithmSigner)
	if !ok {
		return nil, badIdentity(r, "can't sign. Use an ed25519 key")
	}
	// Never SHA-1, whatever a host says it can do.
	return ssh.NewSignerWithAlgorithms(algorithms, []string{ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512})
}

func badIdentity(r upstream.Remote, what string) *upstream.Error {
	return &upstream.Error{Kind: upstream.KindCredentials, Message: fmt.Sprintf("the identity in secret %q %s", r.Secret, what)}
}

// knownHosts reads known hosts. The library takes files only.
func (k *keyring) knownHosts(r upstream.Remote, text string) (ssh.HostKeyCallback, error) {
	f, err := os.CreateTemp(k.dir, "known_hosts-*")
	if err != nil {
		return nil, &upstream.Error{Kind: upstream.KindStorage, Cause: err, Message: "known hosts can't be written: " + upstream.PlainCause(err) + ". Check the gitcache's disk"}
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(strings.ReplaceAll(text, "\r\n", "\n"))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, &upstream.Error{Kind: upstream.KindStorage, Cause: err, Message: "known hosts can't be written: " + upstream.PlainCause(err) + ". Check the gitcache's disk"}
	}
	known, err := knownhosts.New(f.Name())
	if err != nil {
		return nil, &upstream.Error{Kind: upstream.KindCredentials, Message: fmt.Sprintf(
			"known_hosts in secret %q can't be read%s. Each line is: host, kind of key, key, as %q prints it", r.Secret, badLine(err), keyscanCommand(r))}
	}
	return known, nil
}

// lineNumber is within an error of the library.
var lineNumber = regexp.MustCompile(`:(\d+): `)

func badLine(err error) string {
	if m := lineNumber.FindStringSubmatch(err.Error()); m != nil {
		return ": line " + m[1] + " is wrong"
	}
	return ""
}

// splitAuthorities takes the lines about certificate authorities apart from those about keys, as plain
// lines. Only with them a host is asked for a certificate.
func splitAuthorities(text string) (keys, authorities string) {
	var k, a strings.Builder
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "@cert-authority"); ok {
			a.WriteString(strings.TrimSpace(rest) + "\n")
		} else {
			k.WriteString(line)
		}
	}
	return k.String(), a.String()
}

// wantedTypes are the kinds of keys that are known of a host.
func wantedTypes(known ssh.HostKeyCallback, address string) (types []string) {
	var mismatch *knownhosts.KeyError
	if err := known(address, &net.TCPAddr{IP: net.IPv4zero}, noKey{}); !errors.As(err, &mismatch) {
		return nil
	}
	for _, k := range mismatch.Want {
		types = append(types, k.Key.Type())
	}
	return types
}

// noKey is what no host has: it is asked about to learn which keys a host should have.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

func keyAlgorithms(keyType string) []string {
	switch keyType {
	case ssh.KeyAlgoRSA:
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
		return []string{keyType}
	}
	return nil // of no use today, as ssh-dss
}

// anyAlgorithms are for a host that is not known. The shortest key is the best to show.
func anyAlgorithms() []string {
	return []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
}

func certificateAlgorithms() []string {
	return []string{
		ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01, ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
	}
}
