package fetch_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairlead.dev/platform/longform"
	"fairlead.dev/platform/parallel"
	"fairlead.dev/services/gitcache/internal/fetch/githttp"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/upstream"
)

func TestMain(m *testing.M) {
	parallel.WaitingTests()
	goleak.VerifyTestMain(m)
}

func newFetcher(t *testing.T, o upstream.Options) *githttp.HTTP {
	t.Helper()
	if o.Addresses == nil {
		o.Addresses = thisMachine(t)
	}
	client := upstream.NewClient(o)
	t.Cleanup(client.Close)
	f := githttp.New(client)
	t.Cleanup(f.Close)
	return f
}

// thisMachine is where the tests' hosts are.
func thisMachine(t *testing.T) *upstream.Policy {
	t.Helper()
	return policy(t, "127.0.0.0/8", "::1/128")
}

// roots trust a server's certificate.
func roots(t *testing.T, server *gittest.Server) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return pool
}

func remote(t *testing.T, raw string) upstream.Remote {
	t.Helper()
	u, err := upstream.ParseURL(raw)
	if err != nil {
		t.Fatal(err)
	}
	return upstream.Remote{URL: u}
}

func newMirror(t *testing.T) *mirror.Mirror {
	t.Helper()
	ms, err := mirror.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ms.Mirror("u1")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func wantError(t *testing.T, err error, kind upstream.Kind, words ...string) {
	t.Helper()
	var e *upstream.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a *fetch.Error", err)
	}
	if e.Kind != kind {
		t.Errorf("kind is %s, want %s: %s", e.Kind, kind, e.Message)
	}
	for _, w := range words {
		if !strings.Contains(e.Message, w) {
			t.Errorf("message %q does not say %q", e.Message, w)
		}
	}
}

func TestFetchBringsOnlyWhatIsNew(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	big := strings.Repeat("never sent twice\n", 1<<10)
	first := repo.Commit("one", gittest.Files{"big": big + fmt.Sprint(time.Now()), "a": "1"})
	f, r, m := newFetcher(t, upstream.Options{}), remote(t, repo.URL()), newMirror(t)

	l, err := f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := l.Commit("HEAD"); !ok || got.String() != first || l.Refs["refs/heads/main"] != got {
		t.Fatalf("HEAD is %v, main is %v, want %s", got, l.Refs["refs/heads/main"], first)
	}
	if _, err := f.Fetch(t.Context(), r, l, []git.Hash{git.HashOf(first)}, m); err != nil {
		t.Fatal(err)
	}
	setHead(t, m, first)

	second := repo.Commit("two", gittest.Files{"a": "2"})
	l, err = f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := f.Fetch(t.Context(), r, l, []git.Hash{git.HashOf(second)}, m)
	if err != nil {
		t.Fatal(err)
	}
	// Commit, tree and blob of the change: three objects in one small pack.
	if n == 0 || n > 600 {
		t.Errorf("the second fetch brought %d bytes", n)
	}
	o := m.Objects()
	defer o.Close()
	c, err := o.Commit(git.HashOf(second))
	if err != nil || c.Subject != "two" || c.Author != "Ada" || time.Since(c.Time) > time.Minute {
		t.Errorf("commit is %+v, %v", c, err)
	}
}

func setHead(t *testing.T, m *mirror.Mirror, commit string) {
	t.Helper()
	id := git.HashOf(commit)
	if err := m.SetHeads(map[string]mirror.Head{"HEAD": {Ref: "HEAD", Object: id, Commit: id}}); err != nil {
		t.Fatal(err)
	}
}

func TestURLPolicy(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"https://git.example.com/shop.git", "https://git.example.com:8443/a/b/", "http://127.0.0.1:9/x",
		"ssh://git@git.example.com/x", "git@git.example.com:x",
		"http://[::1]/x", "http://localhost/x",
	} {
		if _, err := upstream.ParseURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, words := range map[string]string{
		"git://git.example.com/x":               "must begin with https://",
		"file:///etc":                           "must begin with https://",
		"ext::sh -c id":                         "spaces",
		"ssh://git:s3cret@git.example.com/x":    "password",
		"-oProxyCommand=x":                      "begin with '-'",
		"http://git.example.com/x":              "this machine only",
		"http://127.0.0.1.example.com/x":        "this machine only",
		"https://ada:s3cret@git.example.com/x":  "Put them into a secret",
		"https:///x":                            "names no host",
		"https://git.example.com/x?y=s3cret":    "query",
		"https://%41:s3cret@git.example.com/%z": "can't be parsed",
		"https://-x.example.com/y":              "names no host",
	} {
		_, err := upstream.ParseURL(bad)
		wantError(t, err, upstream.KindRefused, words)
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q gives a secret away", err)
		}
	}
}

func TestWrongCredentialsNameTheSecret(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	repo.Commit("one", gittest.Files{"a": "1"})
	server.RequireLogin("ada", "right")
	f, r := newFetcher(t, upstream.Options{}), remote(t, repo.URL())

	_, err := f.List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindCredentials, "401 from 127.0.0.1", "Name a secret")
	r.Secret, r.Credentials = "shop-git", upstream.Credentials{Username: "ada", Password: "wr0ng"}
	_, err = f.List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindCredentials, "401 from 127.0.0.1", `secret "shop-git"`)
	for _, text := range []string{err.Error(), fmt.Sprintf("%v %+v %#v", r, r, r)} {
		if strings.Contains(text, "wr0ng") {
			t.Errorf("%q gives the password away", text)
		}
	}
	r.Credentials.Password = "right"
	if _, err := f.List(t.Context(), r, gitwire.Names{}); err != nil {
		t.Errorf("with the right password: %v", err)
	}
}

func TestCredentialsDoNotFollowARedirect(t *testing.T) {
	t.Parallel()
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.URL.User != nil {
			leaked.Store(true)
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(other.Close)
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	server.SetFault(gittest.Redirect(other.URL))
	r := remote(t, repo.URL())
	r.Secret, r.Credentials = "shop-git", upstream.Credentials{Username: "ada", Password: "s3cret"}

	_, err := newFetcher(t, upstream.Options{}).List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindCredentials, "never sent to another host")
	if leaked.Load() {
		t.Error("the credentials went to another host")
	}
	if log := server.Log(); !log[0].Authorized {
		t.Error("the credentials did not go to their own host either")
	}
}

func TestAFetchFromWhereARedirectLedCarriesNoCredentials(t *testing.T) {
	t.Parallel()
	old, moved := gittest.NewServer(t), gittest.NewServer(t)
	repo := moved.NewRepo(t, "shop.git")
	id := git.HashOf(repo.Commit("one", gittest.Files{"a": "1"}))
	old.SetFault(gittest.Redirect(moved.URL))
	r := remote(t, old.URL+"/shop.git")
	r.Secret, r.Credentials = "shop-git", upstream.Credentials{Username: "ada", Password: "s3cret"}
	f := newFetcher(t, upstream.Options{})
	l, err := f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Fetch(t.Context(), r, l, []git.Hash{id}, newMirror(t)); err != nil {
		t.Fatal(err)
	}
	if moved.Count("fetch") != 1 {
		t.Error("the fetch went elsewhere")
	}
	for _, line := range moved.Log() {
		if line.Authorized {
			t.Errorf("the credentials went along with %s %s", line.Method, line.Path)
		}
	}
}

func TestRedirectToADifferentSchemeIsRefused(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	for _, to := range []string{"http://git.example.com", "file:///etc", "https://ada:s3cret@git.example.com"} {
		server.SetFault(gittest.Redirect(to))
		_, err := newFetcher(t, upstream.Options{}).List(t.Context(), remote(t, repo.URL()), gitwire.Names{})
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("redirect to %s: %v", to, err)
		}
	}
}

func TestRedirectWithinTheHostIsFollowed(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "moved.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/old.git/") {
			return false
		}
		http.Redirect(w, r, strings.Replace(r.URL.RequestURI(), "/old.git", "/moved.git", 1),
			http.StatusMovedPermanently)
		return true
	})
	f, r, m := newFetcher(t, upstream.Options{}), remote(t, server.URL+"/old.git"), newMirror(t)
	l, err := f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Fetch(t.Context(), r, l, []git.Hash{git.HashOf(id)}, m); err != nil {
		t.Error(err)
	}
}

func TestUpstreamTroubleIsSaidInWords(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	repo.Commit("one", gittest.Files{"a": "1"})
	tests := []struct {
		name  string
		fault gittest.Fault
		path  string
		kind  upstream.Kind
		words string
	}{
		{"unknown repository", nil, "/none.git", upstream.KindNotFound, "repository " + server.URL + "/none.git not found"},
		{"server error", gittest.Status(500), "/shop.git", upstream.KindServer, "500 from"},
		{"forbidden", gittest.Status(403), "/shop.git", upstream.KindCredentials, "403 from"},
		{"a web page", func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte("<html>hello"))
			return true
		}, "/shop.git", upstream.KindNotGit, "does not answer as a Git repository"},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = w.Write([]byte("0010garbage....\x00"))
			return true
		}, "/shop.git", upstream.KindContent, "list of refs"},
		{"an error in Git's way", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = w.Write([]byte("001e# service=git-upload-pack\n0000001bERR quota\x1b[31m exceeded"))
			return true
		}, "/shop.git", upstream.KindContent, "upstream says: quota [31m exceeded"},
		{"sha256", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			id := strings.Repeat("ab", 32)
			l := id + " HEAD\x00object-format=sha256\n"
			_, _ = fmt.Fprintf(w, "001e# service=git-upload-pack\n0000%04x%s0000", len(l)+4, l)
			return true
		}, "/shop.git", upstream.KindContent, "SHA-256"},
	}
	f := newFetcher(t, upstream.Options{})
	for _, tt := range tests {
		server.SetFault(tt.fault)
		_, err := f.List(t.Context(), remote(t, server.URL+tt.path), gitwire.Names{})
		t.Log(tt.name, "->", err)
		wantError(t, err, tt.kind, tt.words)
	}
}

func TestRetryAfterIsHandedOn(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	server.SetFault(gittest.Status(429, "Retry-After", "90"))
	_, err := newFetcher(t, upstream.Options{}).List(t.Context(), remote(t, server.URL+"/x"), gitwire.Names{})
	wantError(t, err, upstream.KindThrottled, "too many requests")
	var e *upstream.Error
	if errors.As(err, &e) && e.RetryAfter != 90*time.Second {
		t.Errorf("retry after %s", e.RetryAfter)
	}
}

func TestUnreachableHosts(t *testing.T) {
	t.Parallel()
	f := newFetcher(t, upstream.Options{})
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	_, err := f.List(t.Context(), remote(t, closed.URL+"/x"), gitwire.Names{})
	wantError(t, err, upstream.KindUnreachable, "connection refused")
	_, err = f.List(t.Context(), remote(t, "https://fairlead.invalid/x"), gitwire.Names{})
	wantError(t, err, upstream.KindUnreachable, "fairlead.invalid")
	wantNoURL(t, err)
}

func wantNoURL(t *testing.T, err error) {
	t.Helper()
	if strings.Contains(err.Error(), "service=") {
		t.Errorf("%q shows the request", err)
	}
}

func TestTLSIsVerified(t *testing.T) {
	t.Parallel()
	server := gittest.NewTLSServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := repo.Commit("one", gittest.Files{"a": "1"})
	_, err := newFetcher(t, upstream.Options{}).List(t.Context(), remote(t, repo.URL()), gitwire.Names{})
	wantError(t, err, upstream.KindTLS, "authority that the hub does not know")

	f := newFetcher(t, upstream.Options{RootCAs: roots(t, server)})
	l, err := f.List(t.Context(), remote(t, repo.URL()), gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Fetch(t.Context(), remote(t, repo.URL()), l, []git.Hash{git.HashOf(id)}, newMirror(t)); err != nil {
		t.Error(err)
	}
}

func TestHangAfterTheRefListEndsByDeadline(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := git.HashOf(repo.Commit("one", gittest.Files{"a": "1"}))
	f := newFetcher(t, upstream.Options{Limits: upstream.Limits{IdleTime: 200 * time.Millisecond}})
	r := remote(t, repo.URL())
	l, err := f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	resume := make(chan struct{})
	defer close(resume)
	for name, fault := range map[string]gittest.Fault{
		"no answer": gittest.HangOnFetch(),
		"half":      gittest.StallFetch(make(chan struct{}), resume),
	} {
		server.SetFault(fault)
		_, err = f.Fetch(t.Context(), r, l, []git.Hash{id}, newMirror(t))
		t.Log(name, "->", err)
		wantError(t, err, upstream.KindTimeout, "sent nothing for 200ms")
	}
}

// slowDisk has a pack and then takes its time to check it, as a large one does.
type slowDisk struct {
	*mirror.Mirror
	time time.Duration
}

func (s slowDisk) AddPack(ctx context.Context, pack io.Reader) (int64, error) {
	n, err := io.Copy(io.Discard, pack)
	if err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(s.time):
		return n, nil
	}
}

func TestCheckingAPackIsNotUpstreamsSilence(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a check of 10 s")
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := git.HashOf(repo.Commit("one", gittest.Files{"a": "1"}))
	const idle = 5 * time.Second // Git must be quicker, also on a busy machine
	f := newFetcher(t, upstream.Options{Limits: upstream.Limits{IdleTime: idle}})
	r := remote(t, repo.URL())
	l, err := f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.Fetch(t.Context(), r, l, []git.Hash{id}, slowDisk{newMirror(t), 2 * idle}); err != nil {
		t.Error(err)
	}
}

func TestTruncatedPackLeavesNothing(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	id := git.HashOf(repo.Commit("one", gittest.Files{"a": strings.Repeat("x", 5000)}))
	f, r, m := newFetcher(t, upstream.Options{}), remote(t, repo.URL()), newMirror(t)
	l, err := f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 8, 30, 100, 200} {
		server.SetFault(server.TruncateFetch(n))
		if _, err = f.Fetch(t.Context(), r, l, []git.Hash{id}, m); err == nil {
			t.Errorf("a pack cut after %d bytes was taken", n)
		}
		o := m.Objects()
		if o.Has(id) {
			t.Errorf("cut after %d bytes, the commit is there", n)
		}
		o.Close()
	}
	server.SetFault(nil)
	if _, err = f.Fetch(t.Context(), r, l, []git.Hash{id}, m); err != nil {
		t.Error(err)
	}
}

func TestPackLimitNamesItself(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "shop.git")
	noise := make([]byte, 0, 3<<20)
	for i := range 3 << 20 {
		noise = append(noise, byte((i*i*2654435761)>>13))
	}
	id := git.HashOf(repo.Commit("one", gittest.Files{"a": string(noise)}))
	f := newFetcher(t, upstream.Options{Limits: upstream.Limits{PackBytes: 4 << 10}})
	r := remote(t, repo.URL())
	l, err := f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Fetch(t.Context(), r, l, []git.Hash{id}, newMirror(t))
	wantError(t, err, upstream.KindContent, "pack is larger than the limit")
}

func TestEmptyRepositoryIsNoError(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	repo := server.NewRepo(t, "empty.git")
	l, err := newFetcher(t, upstream.Options{}).List(t.Context(), remote(t, repo.URL()), gitwire.Names{})
	if err != nil || len(l.Refs) != 0 {
		t.Errorf("got %v, %v", l, err)
	}
}
