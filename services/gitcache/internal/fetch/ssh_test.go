package fetch_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/longform"
	"fairlead.dev/services/gitcache/internal/fetch/gitssh"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// host is an sshd with one repository, and what it takes to read that.
type host struct {
	*gittest.SSHServer
	upstream.Remote
	fetcher *gitssh.SSH
	commit  string
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{SSHServer: gittest.NewSSHServer(t)}
	h.fetcher = gitssh.New(upstream.Options{Addresses: thisMachine(t), Dir: t.TempDir()})
	h.commit = h.NewRepo(t, "shop.git").Commit("one", gittest.Files{"a": "1"})
	h.Remote = remote(t, h.SSHServer.URL+"/shop.git")
	h.Secret = "shop-git"
	h.Credentials = upstream.Credentials{Identity: h.Identity, KnownHosts: h.KnownHosts}
	return h
}

func (h *host) wantListed(t *testing.T) {
	t.Helper()
	l, err := h.fetcher.List(t.Context(), h.Remote, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	if id := l.Refs["refs/heads/main"].String(); id != h.commit {
		t.Errorf("main is %s, want %s", id, h.commit)
	}
}

// wantNoSession checks that a host was told nothing, in so and so many words.
func (h *host) wantNoSession(t *testing.T, kind upstream.Kind, words ...string) {
	t.Helper()
	before := h.Count("session")
	_, err := h.fetcher.List(t.Context(), h.Remote, gitwire.Names{})
	t.Log(err)
	wantError(t, err, kind, words...)
	if h.Count("session") != before {
		t.Error("git-upload-pack was run")
	}
	if err != nil && strings.Contains(err.Error(), "PRIVATE") {
		t.Error("the message gives the key away")
	}
}

func TestEveryKindOfIdentityLogsIn(t *testing.T) {
	t.Parallel()
	longform.Only(t, "logins with keys of each kind")
	h := newHost(t)
	for _, kind := range []string{gittest.ED25519, gittest.ECDSA, gittest.RSA} {
		for _, phrase := range []string{"", "open sesame"} {
			key := gittest.NewKey(t, kind)
			h.Authorize(t, key)
			h.Credentials.Identity, h.Credentials.Passphrase = gittest.PrivatePEM(t, key, phrase), phrase
			h.wantListed(t)
			h.wantListed(t) // from the keyring
		}
	}
}

func TestIdentityThatCannotBeUsedIsSaid(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	locked := gittest.PrivatePEM(t, gittest.NewKey(t, gittest.ED25519), "open sesame")
	for name, tt := range map[string]struct {
		identity, passphrase, words string
	}{
		"none":             {"", "", `needs a private key. Put it as identity into secret "shop-git"`},
		"no passphrase":    {locked, "", "is locked with a passphrase"},
		"wrong passphrase": {locked, "xyzzy", "can't be unlocked. Correct the passphrase"},
		"no key":           {"ssh-ed25519 AAAA", "", "can't be read. Put a private key there"},
	} {
		t.Log(name)
		h.Credentials.Identity, h.Credentials.Passphrase = tt.identity, tt.passphrase
		h.wantNoSession(t, upstream.KindCredentials, `secret "shop-git"`, tt.words)
	}
}

func TestHostIsNotTrustedWithoutKnownHosts(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, none := range []string{"", " \n"} {
		h.Credentials.KnownHosts = none
		h.wantNoSession(t, upstream.KindCredentials, `secret "shop-git" has no known_hosts`,
			"ssh-keyscan -p "+h.Remote.URL.Port()+" 127.0.0.1")
	}
}

func TestUnknownHostIsRefusedWithTheLineToAdd(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	known := strings.TrimSpace(h.KnownHosts)
	h.Credentials.KnownHosts = "# a comment\n\n" + strings.Replace(known, "127.0.0.1", "127.0.0.2", 1) + "\n"
	h.wantNoSession(t, upstream.KindRefused, `known_hosts in secret "shop-git" has no key of 127.0.0.1`,
		"ssh-ed25519 SHA256:", "add the line: "+known)
}

func TestChangedHostKeyIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.wantListed(t)
	old := h.KnownHosts
	now := h.UseHostKeys(t, gittest.ED25519)
	h.wantNoSession(t, upstream.KindRefused, "is not the known one", shortPrint(t, old), shortPrint(t, now[0]),
		"somebody may be in between", now[0])
	h.UseHostKeys(t, gittest.RSA)
	h.wantNoSession(t, upstream.KindRefused, "is not the known one", "ssh-ed25519", "rsa-sha2-512",
		"somebody may be in between")
	h.Credentials.KnownHosts = h.KnownHosts
	h.wantListed(t)
}

// shortPrint is the fingerprint of a line's key.
func shortPrint(t *testing.T, line string) string {
	t.Helper()
	_, _, key, _, _, err := ssh.ParseKnownHosts([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	return ssh.FingerprintSHA256(key)
}

func TestHostWithManyKeysShowsTheKnownOne(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, line := range h.UseHostKeys(t, gittest.ED25519, gittest.ECDSA, gittest.RSA) {
		h.Credentials.KnownHosts = line
		h.wantListed(t)
	}
}

func TestKnownHostsInEveryForm(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	name, key, _ := strings.Cut(strings.TrimSpace(h.KnownHosts), " ")
	port := h.Remote.URL.Port()
	for form, text := range map[string]string{
		"hashed":             knownhosts.HashHostname(name) + " " + key,
		"many names":         "git.example.com," + name + " " + key,
		"a pattern":          "[127.0.0.?]:" + port + " " + key,
		"lines of Windows":   "# hello\r\n" + name + " " + key + "\r\n",
		"no line at the end": name + " " + key + " a comment",
	} {
		t.Log(form)
		h.Credentials.KnownHosts = text
		h.wantListed(t)
	}
	for form, text := range map[string]string{
		"excluded":     "[127.0.0.*]:" + port + ",!" + name + " " + key,
		"another port": "127.0.0.1 " + key,
	} {
		t.Log(form)
		h.Credentials.KnownHosts = text
		h.wantNoSession(t, upstream.KindRefused, "has no key of 127.0.0.1")
	}
	h.Credentials.KnownHosts = name + " " + key + "\n@revoked * " + key
	h.wantNoSession(t, upstream.KindRefused, "is revoked")
	h.Credentials.KnownHosts = name + " " + key + "\n127.0.0.1 ssh-ed25519 garbage"
	h.wantNoSession(t, upstream.KindCredentials, `known_hosts in secret "shop-git" can't be read: line 2 is wrong`)
}

func TestHostCertificates(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	authority := gittest.NewKey(t, gittest.ED25519)
	h.UseHostCertificate(t, authority, "127.0.0.1")
	h.Credentials.KnownHosts = "@cert-authority " + h.KnownHostsLine(t, authority)
	h.wantListed(t)
	h.Credentials.KnownHosts = "@cert-authority " + h.KnownHostsLine(t, gittest.NewKey(t, gittest.ED25519))
	h.wantNoSession(t, upstream.KindRefused, "can't be trusted")
	h.Credentials.KnownHosts = "@cert-authority " + h.KnownHostsLine(t, authority)
	h.UseHostCertificate(t, authority, "git.example.com")
	h.wantNoSession(t, upstream.KindRefused, "can't be trusted", "principal")
}

func TestWhatTheHostSaysIsSorted(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for said, want := range map[string]struct {
		kind  upstream.Kind
		words string
	}{
		"ERROR: Repository not found.\nfatal: Could not read from remote repository.":                                              {upstream.KindNotFound, "not found. 127.0.0.1"},
		"remote: \nremote: ======\nremote: ERROR: The project you were looking for could not be found\nremote: \nremote: ======\n": {upstream.KindNotFound, "says: The project you were looking for could not be found. Check"},
		"ERROR: Permission to a/b.git denied to deploy key":                                                                        {upstream.KindCredentials, "does not let the key in secret \"shop-git\" read"},
		"Too many connections, try again later":                                                                                    {upstream.KindThrottled, "says: Too many connections"},
		"disk on fire \x1b[31m":                                                                                                    {upstream.KindServer, "It says: disk on fire [31m. Fairlead asks again later"},
	} {
		h.SetFault(gittest.SSHSay(said), "")
		_, err := h.fetcher.List(t.Context(), h.Remote, gitwire.Names{})
		t.Log(err)
		wantError(t, err, want.kind, want.words)
	}
	h.SetFault("exit 0", "")
	_, err := h.fetcher.List(t.Context(), h.Remote, gitwire.Names{})
	wantError(t, err, upstream.KindServer, "without a word")
	h.SetFault("echo 'Welcome to Microsoft'; exit 0", "")
	_, err = h.fetcher.List(t.Context(), h.Remote, gitwire.Names{})
	wantError(t, err, upstream.KindContent, "the list of refs from 127.0.0.1")
}

func TestPathIsOneWordForAnyShell(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, name := range []string{
		"it's.git", "a b.git", "$(touch x).git", "`id`;!x&|.git", "-x.git", `a\b"c.git`,
		"größe.git",
	} {
		repo := h.NewRepo(t, name)
		h.commit = repo.Commit("one", gittest.Files{"a": name})
		u := *h.Remote.URL
		u.Path, u.RawPath = "/"+name, ""
		h.Remote.URL = &u
		h.wantListed(t)
	}
}

func TestPathThatIsAnOptionIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, path := range []string{"-x", "", "/a\nb"} {
		u := *h.Remote.URL
		u.Path = path
		h.Remote.URL = &u
		h.wantNoSession(t, upstream.KindRefused, "can't be given to a shell")
	}
}

func TestProxyForSSHIsRefusedInWords(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.Proxy = &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	h.wantNoSession(t, upstream.KindRefused, "a proxy for ssh is not supported")
}

func TestHostThatIsNoSSHServerIsSaid(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	web := gittest.NewServer(t)
	h.Remote.URL.Host = web.Listener.Addr().String()
	_, err := h.fetcher.List(t.Context(), h.Remote, gitwire.Names{})
	t.Log(err)
	wantError(t, err, upstream.KindUnreachable, "does not go through with the ssh handshake: it ends the connection")
}

// A poll makes a connection each time: this says what that costs the hub, besides round trips.
func BenchmarkSSHHandshakeAndList(b *testing.B) {
	s := gittest.NewSSHServer(b)
	s.NewRepo(b, "shop.git")
	allow, err := dialpolicy.Parse([]string{"127.0.0.0/8"})
	if err != nil {
		b.Fatal(err)
	}
	f := gitssh.New(upstream.Options{Addresses: upstream.NewPolicy(allow), Dir: b.TempDir()})
	u, err := upstream.ParseURL(s.URL + "/shop.git")
	if err != nil {
		b.Fatal(err)
	}
	r := upstream.Remote{URL: u, Credentials: upstream.Credentials{Identity: s.Identity, KnownHosts: s.KnownHosts}}
	before := cpu(b)
	for b.Loop() {
		if _, err := f.List(b.Context(), r, gitwire.Names{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
}

// cpu that this process has used, without sshd.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// lateContext is a context whose deadline is over before its timer fires, as on a machine that is short of processors.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

func TestACallersDeadlineIsNoFaultOfTheHost(t *testing.T) {
	t.Parallel()
	w := newWay(t, "ssh", upstream.Options{})
	id := w.newRepo(t, "shop.git").Commit("one", gittest.Files{"a": "1"})
	r := w.remote(t, "shop.git")
	l := w.list(t, r)
	for name, ask := range map[string]func(context.Context) error{
		"list": func(ctx context.Context) error {
			_, err := w.List(ctx, r, gitwire.Names{})
			return err
		},
		"fetch": func(ctx context.Context) error {
			_, err := w.Fetch(ctx, r, l, ids(id), newMirror(t))
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := ask(lateContext{ctx}); !errors.Is(err, context.DeadlineExceeded) ||
			errors.As(err, new(*upstream.Error)) {
			t.Errorf("%s: got %v, want the context's error", name, err)
		}
		cancel()
	}
}
