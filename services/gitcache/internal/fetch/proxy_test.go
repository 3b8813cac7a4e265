package fetch_test

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// authority is a server's certificate as a secret holds it.
func authority(server *gittest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// behindProxy is a repository that only a proxy knows the way to: its host has no address.
func behindProxy(t *testing.T) (*gittest.Server, *gittest.Proxy, upstream.Remote, string) {
	t.Helper()
	server := gittest.NewTLSServer(t)
	repo := server.NewRepo(t, "shop.git")
	commit := repo.Commit("one", gittest.Files{"a": "1"})
	proxy := gittest.NewProxy(t, server.Listener.Addr().String())
	r := remote(t, "https://example.com/shop.git")
	r.Secret, r.Credentials = "shop-git", upstream.Credentials{CA: authority(server)}
	r.Proxy = parseProxy(t, proxy.URL)
	return server, proxy, r, commit
}

func parseProxy(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := upstream.ParseProxy(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestFetchThroughASourcesProxy(t *testing.T) {
	t.Parallel()
	server, proxy, r, commit := behindProxy(t)
	server.RequireLogin("ada", "s3cret")
	proxy.RequireLogin("proxy-ada", "pr0xy")
	r.Credentials.Username, r.Credentials.Password = "ada", "s3cret"
	r.Credentials.ProxyUsername, r.Credentials.ProxyPassword = "proxy-ada", "pr0xy"
	var mu sync.Mutex
	var seen []http.Header
	server.SetFault(func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Clone())
		return false
	})
	f := newFetcher(t, upstream.Options{})
	l, err := f.List(t.Context(), r, gitwire.Names{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Fetch(t.Context(), r, l, []git.Hash{git.HashOf(commit)}, newMirror(t)); err != nil {
		t.Fatal(err)
	}
	asked := proxy.Asked()
	if len(asked) != 1 || asked[0].Host != "example.com:443" {
		t.Fatalf("the proxy was asked %d times, for %v", len(asked), asked)
	}
	if h := asked[0].Header; h.Get("Authorization") != "" {
		t.Errorf("the proxy got the host's credentials: %v", h)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, h := range seen {
		if h.Get("Proxy-Authorization") != "" || h.Get("Authorization") == "" {
			t.Errorf("the host got %v", h)
		}
	}
}

func TestProxyTroubleIsSaidInWords(t *testing.T) {
	t.Parallel()
	_, proxy, r, _ := behindProxy(t)
	f := newFetcher(t, upstream.Options{})

	proxy.RequireLogin("proxy-ada", "pr0xy")
	_, err := f.List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindCredentials, "407 from the proxy 127.0.0.1", "proxyUsername")
	r.Credentials.ProxyUsername, r.Credentials.ProxyPassword = "proxy-ada", "wr0ng"
	_, err = f.List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindCredentials, "407 from the proxy 127.0.0.1")
	if strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("%q gives the password away", err)
	}
	r.Credentials.ProxyPassword = "pr0xy"
	proxy.Answer(http.StatusForbidden)
	_, err = f.List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindRefused, "403 from the proxy", "example.com")
	proxy.Answer(http.StatusBadGateway)
	_, err = f.List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindUnreachable, "502 from the proxy", "example.com")

	// A port that is taken and where nobody listens: no other test can listen there meanwhile.
	own, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.Proxy.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	r.Proxy = &url.URL{Scheme: r.Proxy.Scheme, Host: own.LocalAddr().String()}
	_, err = f.List(t.Context(), r, gitwire.Names{})
	t.Log(err)
	wantError(t, err, upstream.KindUnreachable, "the proxy to example.com is not reachable", "connection refused")
	r.Credentials.ProxyPassword = ""
	_, err = f.List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindCredentials, `secret "shop-git"`, "proxyPassword")
}

func TestAProxyThatHangsEndsByDeadline(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	r := remote(t, "https://example.com/shop.git")
	r.Proxy = parseProxy(t, "http://"+silent.Addr().String())
	_, err = newFetcher(t, upstream.Options{Limits: upstream.Limits{ListTime: 200 * time.Millisecond}}).List(t.Context(), r,
		gitwire.Names{})
	wantError(t, err, upstream.KindTimeout, "did not answer within")
}

func TestASourcesProxyIsNoWayAroundThePolicy(t *testing.T) {
	t.Parallel()
	_, proxy, r, _ := behindProxy(t)
	// The proxy itself is a host that the source names.
	_, err := newFetcher(t, upstream.Options{Addresses: policy(t)}).List(t.Context(), r, gitwire.Names{})
	t.Log(err)
	wantError(t, err, upstream.KindRefused, "loopback", "--allow-addresses")
	// The address that the proxy would dial is judged as far as the URL says it.
	f := newFetcher(t, upstream.Options{})
	for raw, words := range map[string]string{
		"https://169.254.169.254/latest": "cloud metadata", "https://10.0.0.1/x": "private",
		"https://[fd00::1]/x":         "private",
		"https://[::ffff:10.0.0.1]/x": "private",
	} {
		r.URL = remote(t, raw).URL
		_, err := f.List(t.Context(), r, gitwire.Names{})
		wantError(t, err, upstream.KindRefused, words)
	}
	r.URL = remote(t, "http://127.0.0.1/x").URL
	_, err = f.List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindRefused, "this machine only")
	if n := len(proxy.Asked()); n != 0 {
		t.Errorf("the proxy was asked %d times", n)
	}
}

// A process of its own: the environment's proxies are read once.
func TestTheOperatorsProxyIsExempt(t *testing.T) {
	t.Parallel()
	if os.Getenv("HTTPS_PROXY") == "" {
		server, proxy, _, _ := behindProxy(t)
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheOperatorsProxyIsExempt$", "-test.v")
		cmd.Env = append(os.Environ(), "HTTPS_PROXY="+strings.Replace(proxy.URL, "://", "://operator:0perator@", 1),
			"NO_PROXY=", "FETCH_TEST_CA="+authority(server))
		proxy.RequireLogin("operator", "0perator")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if n := len(proxy.Asked()); n != 1 || strings.Contains(string(out), "0perator") {
			t.Errorf("the proxy was asked %d times\n%s", n, out)
		}
		return
	}
	f := newFetcher(t, upstream.Options{Addresses: policy(t)}) // no special address at all
	r := remote(t, "https://example.com/shop.git")
	r.Credentials = upstream.Credentials{CA: os.Getenv("FETCH_TEST_CA")}
	if l, err := f.List(t.Context(), r, gitwire.Names{}); err != nil || len(l.Refs) == 0 {
		t.Errorf("through the operator's proxy: %v, %v", l, err)
	}
	r.URL = remote(t, "https://169.254.169.254/latest").URL
	_, err := f.List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindRefused, "cloud metadata")
}

func TestOnlyTheSourcesAuthorityIsTrusted(t *testing.T) {
	t.Parallel()
	server := gittest.NewTLSServer(t)
	repo := server.NewRepo(t, "shop.git")
	repo.Commit("one", gittest.Files{"a": "1"})
	r := remote(t, repo.URL())
	r.Secret = "shop-git"

	r.Credentials = upstream.Credentials{CA: authority(server)}
	f := newFetcher(t, upstream.Options{}) // the system does not know it
	if _, err := f.List(t.Context(), r, gitwire.Names{}); err != nil {
		t.Errorf("with the right authority: %v", err)
	}
	f = newFetcher(t, upstream.Options{RootCAs: roots(t, server)}) // the system knows it, the source wants another
	r.Credentials = upstream.Credentials{CA: otherAuthority(t)}
	_, err := f.List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindTLS, "authority that the hub does not know", "ca.crt")
	r.Credentials = upstream.Credentials{CA: "-----BEGIN NONSENSE-----"}
	_, err = f.List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindCredentials, `secret "shop-git"`, "ca.crt holds no certificate")
	// A connection that another source's authority has vouched for is not used.
	r.Credentials = upstream.Credentials{}
	if _, err := f.List(t.Context(), r, gitwire.Names{}); err != nil {
		t.Errorf("with the system's authorities: %v", err)
	}
	r.Credentials = upstream.Credentials{CA: otherAuthority(t)}
	_, err = f.List(t.Context(), r, gitwire.Names{})
	wantError(t, err, upstream.KindTLS, "authority that the hub does not know")
}

// A source with an authority or a proxy of its own decides what answers in a host's name. Its requests must not pause,
// nor crowd out, the sources that mean the true host.
func TestAHostByASourcesOwnAuthorityOrProxyPausesNoOthers(t *testing.T) {
	t.Parallel()
	server := gittest.NewTLSServer(t)
	server.NewRepo(t, "shop.git").Commit("one", gittest.Files{"a": "1"})
	server.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	f := newFetcher(t, upstream.Options{RootCAs: roots(t, server)})
	own, proxied, usual := remote(t, server.URL+"/shop.git"), remote(t, server.URL+"/shop.git"), remote(t,
		server.URL+"/shop.git")
	own.Credentials.CA = authority(server)
	proxied.Proxy = parseProxy(t, gittest.NewProxy(t, server.Listener.Addr().String()).URL)
	for _, r := range []upstream.Remote{own, proxied} {
		_, err := f.List(t.Context(), r, gitwire.Names{})
		wantError(t, err, upstream.KindThrottled, "429 from "+server.Listener.Addr().String())
		_, err = f.List(t.Context(), r, gitwire.Names{})
		wantError(t, err, upstream.KindThrottled, server.Listener.Addr().String()+" asked to be left alone")
	}
	server.SetFault(nil)
	if _, err := f.List(t.Context(), usual, gitwire.Names{}); err != nil {
		t.Errorf("others wait: %v", err)
	}
}
