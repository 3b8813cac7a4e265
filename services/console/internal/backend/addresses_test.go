package backend_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/services/console/internal/backend"
)

// thisMachine allows what a console with --allow-addresses 127.0.0.0/8 does.
func thisMachine() *dialpolicy.Policy {
	return dialpolicy.NewPrivate([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
}

// counted is a server on this machine that counts its requests.
func counted(t *testing.T, answer http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	asked := &atomic.Int64{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv, asked
}

// byAddress are backends of each kind that has an address.
func byAddress(address string, allowed *dialpolicy.Policy) map[string]func() (backend.Backend, error) {
	return map[string]func() (backend.Backend, error){
		"vault": func() (backend.Backend, error) {
			return backend.NewVault(backend.Vault{
				Address: address, Credentials: map[string]string{"token": "planted-zq81x7"}, Addresses: allowed,
			}, time.Now)
		},
		"kubernetes": func() (backend.Backend, error) {
			return backend.NewKubernetes(backend.Kubernetes{
				Server: address, Credentials: map[string]string{"token": "planted-zq81x7"}, Addresses: allowed,
			})
		},
		"kubeconfig": func() (backend.Backend, error) {
			text := "current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\nclusters: [{name: x, cluster: {server: '" + address + "'}}]\nusers: [{name: x, user: {token: planted-zq81x7}}]\n"
			return backend.NewKubernetes(backend.Kubernetes{
				Credentials: map[string]string{"kubeconfig": text}, Addresses: allowed,
			})
		},
	}
}

func TestBackendsAreNotAskedAtSpecialAddresses(t *testing.T) {
	t.Parallel()
	inside, asked := counted(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	_, port, _ := strings.Cut(strings.TrimPrefix(inside.URL, "http://"), ":")
	for address, kind := range map[string]string{
		inside.URL:                               "loopback",
		"http://localhost:" + port:               "loopback", // a name, which is judged by what it resolves to
		"http://[::ffff:127.0.0.1]:" + port:      "loopback",
		"http://2130706433:" + port:              "",
		"http://0.0.0.0:" + port:                 "unspecified",
		"https://169.254.169.254":                "metadata",
		"https://[::ffff:169.254.169.254]":       "metadata",
		"https://[fd00:ec2::254]":                "metadata",
		"https://[64:ff9b::a9fe:a9fe]":           "translated",
		"https://224.0.0.1":                      "multicast",
		"https://169.254.169.254/latest/secrets": "metadata",
	} {
		for of, open := range byAddress(address, dialpolicy.NewPrivate(nil)) {
			b, err := open()
			if err == nil {
				err = b.Check(t.Context())
			}
			if err == nil || strings.Contains(err.Error(), "planted-zq81x7") ||
				kind != "" && (!strings.Contains(err.Error(), kind) ||
					!strings.Contains(err.Error(), "--allow-addresses")) {
				t.Errorf("%s at %s: %v", of, address, err)
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the server inside was asked %d times", n)
	}
	for of, open := range byAddress(inside.URL, thisMachine()) {
		b, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Check(t.Context()); err != nil {
			t.Errorf("%s at an address that is allowed: %v", of, err)
		}
	}
}

func TestBackendsFollowNoRedirect(t *testing.T) {
	t.Parallel()
	inside, asked := counted(t,
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"data":{"data":{"a":"b"}}}`) })
	for _, code := range []int{
		http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	} {
		outside, _ := counted(t,
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inside.URL+"/latest", code) })
		at, err := url.Parse(outside.URL)
		if err != nil {
			t.Fatal(err)
		}
		for of, open := range byAddress(outside.URL, thisMachine()) {
			b, err := open()
			if err != nil {
				t.Fatal(err)
			}
			path := map[bool]string{true: "shop/db", false: "secret/shop/db"}[of == "vault"]
			for what, err := range map[string]error{
				"check": b.Check(t.Context()),
				"read":  func() error { _, err := b.Read(t.Context(), path); return err }(),
			} {
				if err == nil || !strings.Contains(err.Error(), at.Host+" leads elsewhere") {
					t.Errorf("%s of %s after a %d: %v", what, of, code, err)
				}
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
}

func TestAnswersOfABackendAreBounded(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"body without end": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"data":{"data":{"a":"`)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 64<<10)); err != nil {
					return
				}
			}
		},
		"head of a megabyte": func(w http.ResponseWriter, _ *http.Request) {
			for i := range 1000 {
				w.Header().Set("X-Junk-"+strings.Repeat("j", i%10)+string(rune('a'+i%26)), strings.Repeat("x", 20<<10))
			}
			_, _ = io.WriteString(w, "{}")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, _ := counted(t, answer)
			b, err := backend.NewVault(backend.Vault{
				Address: srv.URL, Credentials: map[string]string{"token": "x"}, Addresses: thisMachine(),
			}, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := b.Read(t.Context(), "a"); err == nil || len(err.Error()) > 1000 {
				t.Errorf("got %d values, %v", len(got), err)
			}
		})
	}
}
