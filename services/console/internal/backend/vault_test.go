package backend_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.dev/platform/longform"
	"fairlead.dev/platform/subprocess"
	"fairlead.dev/services/console/internal/backend"
	"fairlead.dev/services/console/internal/backend/backendtest"
)

// server is a real Vault, of tools/vaultlocal.
type server struct{ Address, Token, CA string }

// vaultPatience covers a first build with nothing cached.
const vaultPatience = 30 * time.Minute

// startVault runs one for the tests of the package; it ends with them.
var startVault = sync.OnceValues(func() (s server, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), vaultPatience)
	defer cancel()
	binary := os.Getenv("VAULTLOCAL")
	if binary == "" {
		build := exec.CommandContext(ctx, filepath.Join("..", "..", "..", "..", "tools", "vaultlocal", "build.sh"))
		build.Stderr = os.Stderr // a first build takes minutes, and says why it fails
		out, err := build.Output()
		if err != nil {
			return s, fmt.Errorf("build vaultlocal: %w", err)
		}
		binary = strings.TrimSpace(string(out))
	}
	cmd := exec.Command(binary) // the server ends with this process
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	if _, err := subprocess.Start(cmd); err != nil {
		return s, fmt.Errorf("start vaultlocal: %w", err)
	}
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err != nil {
		return s, fmt.Errorf("start vaultlocal: %w", err)
	}
	return s, json.Unmarshal(line, &s)
})

func vaultServer(t *testing.T) server {
	t.Helper()
	longform.Only(t, "Vault")
	s, err := startVault()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s server) do(ctx context.Context, method, path string, body any) error {
	return request(ctx, s.Token, s.CA, method, s.Address+"/v1/"+path, body)
}

// engine mounts a KV engine for a test.
func (s server) engine(t *testing.T, name string) {
	t.Helper()
	if err := s.do(t.Context(), http.MethodPost, "sys/mounts/"+
		name, map[string]any{"type": "kv", "options": map[string]string{"version": "2"}}); err != nil {
		t.Fatal(err)
	}
	// The engine upgrades itself behind our back.
	for ctx := t.Context(); s.do(ctx, http.MethodPost, name+
		"/data/ready", map[string]any{"data": map[string]string{}}) != nil; {
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
	}
}

// answer is what Vault says to a request of the test.
func (s server) answer(t *testing.T, method, path string, body any) map[string]any {
	t.Helper()
	var out map[string]any
	proxy := vaultProxy(t, s, nil)
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, proxy.URL+"/v1/"+path, strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Vault-Token", s.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v: %v", path, resp.StatusCode, err, out)
	}
	return out
}

// role makes an AppRole that may read an engine, and returns its credentials.
func (s server) role(t *testing.T, name, ttl string, options map[string]any) map[string]string {
	t.Helper()
	_ = s.do(t.Context(), http.MethodPost, "sys/auth/approle", map[string]string{"type": "approle"}) // of another test
	policy := map[string]string{"policy": fmt.Sprintf("path %q { capabilities = [\"read\"] }", name+"/data/*")}
	in := map[string]any{"token_policies": name, "token_ttl": ttl}
	maps.Copy(in, options)
	if err := errors.Join(s.do(t.Context(), http.MethodPost, "sys/policies/acl/"+name, policy),
		s.do(t.Context(), http.MethodPost, "auth/approle/role/"+name, in)); err != nil {
		t.Fatal(err)
	}
	data := func(path, method, key string) string {
		return s.answer(t, method, path, nil)["data"].(map[string]any)[key].(string)
	}
	return map[string]string{
		"roleID":   data("auth/approle/role/"+name+"/role-id", http.MethodGet, "role_id"),
		"secretID": data("auth/approle/role/"+name+"/secret-id", http.MethodPost, "secret_id"), "ca.crt": s.CA,
	}
}

func TestVaultKeepsTheContract(t *testing.T) {
	t.Parallel()
	s := vaultServer(t)
	for name, credentials := range map[string]func(t *testing.T, engine string) map[string]string{
		"token": func(*testing.T, string) map[string]string {
			return map[string]string{"token": s.Token, "ca.crt": s.CA}
		},
		"approle": func(t *testing.T, engine string) map[string]string {
			t.Helper()
			return s.role(t, engine, "1h", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backendtest.Run(t, func(t *testing.T) backendtest.Subject {
				t.Helper()
				engine := "contract-" + name
				s.engine(t, engine)
				of := credentials(t, engine)
				b, err := backend.NewVault(backend.Vault{
					Addresses: thisMachine(), Address: s.Address, Mount: engine, Credentials: of,
				}, time.Now)
				if err != nil {
					t.Fatal(err)
				}
				return backendtest.Subject{
					Backend: b, Credentials: []string{s.Token, s.CA},
					Path: func(name string) string { return "shop/" + name },
					Put: func(ctx context.Context, path string, values backend.Values) error {
						return s.do(ctx, http.MethodPost, engine+"/data/"+path, map[string]any{"data": values})
					},
					Remove: func(ctx context.Context, path string) error {
						return s.do(ctx, http.MethodDelete, engine+"/data/"+path, nil)
					},
				}
			})
		})
	}
}

func TestVaultReadsWhatIsNested(t *testing.T) {
	t.Parallel()
	s := vaultServer(t)
	s.engine(t, "nested")
	data := map[string]any{
		"n": 1234567890123, "b": true, "none": nil, "db": map[string]any{"password": "hunter2"}, "list": []any{1, "x"},
	}
	if err := s.do(t.Context(), http.MethodPost, "nested/data/a", map[string]any{"data": data}); err != nil {
		t.Fatal(err)
	}
	b, err := backend.NewVault(backend.Vault{
		Addresses: thisMachine(), Address: s.Address, Mount: "nested",
		Credentials: map[string]string{"token": s.Token, "ca.crt": s.CA},
	}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Read(t.Context(), "a")
	if err != nil || got["n"] != "1234567890123" || got["b"] != "true" || got["db.password"] != "hunter2" ||
		got["list"] != `[1,"x"]` || len(got) != 4 {
		t.Errorf("got %q, %v", got, err)
	}
	if err := s.do(t.Context(), http.MethodPut, "nested/destroy/a", map[string]any{"versions": []int{1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Read(t.Context(), "a"); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("got %v of what was destroyed", err)
	}
	if err := s.do(t.Context(), http.MethodDelete, "sys/mounts/nested", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Read(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "answers 404") {
		t.Errorf("got %v of an engine that is not there", err)
	}
}

// seen is what a proxy before Vault counts.
type seen struct{ logins, renewals, namespaces atomic.Int64 }

// vaultProxy stands before a Vault, without TLS.
func vaultProxy(t *testing.T, s server, count *seen) *httptest.Server {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if count != nil {
			switch {
			case strings.HasSuffix(r.URL.Path, "/approle/login"):
				count.logins.Add(1)
			case strings.HasSuffix(r.URL.Path, "/renew-self"):
				count.renewals.Add(1)
			}
			if r.Header.Get("X-Vault-Namespace") == "team" {
				count.namespaces.Add(1)
			}
		}
		forward(w, r, s)
	}))
	t.Cleanup(proxy.Close)
	return proxy
}

// clock is turned by the test.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

func TestVaultTokensAreRenewedAndReplaced(t *testing.T) {
	t.Parallel()
	s := vaultServer(t)
	s.engine(t, "renewed")
	if err := s.do(t.Context(), http.MethodPost, "renewed/data/a", map[string]any{
		"data": map[string]string{"a": "1"},
	}); err != nil {
		t.Fatal(err)
	}
	count, clock := &seen{}, &clock{}
	b, err := backend.NewVault(backend.Vault{
		Addresses: thisMachine(), Address: vaultProxy(t, s, count).URL, Mount: "renewed",
		Credentials: s.role(t, "renewed", "1h", nil),
	}, clock.now)
	if err != nil {
		t.Fatal(err)
	}
	step := func(logins, renewals int64) {
		t.Helper()
		if got, err := b.Read(t.Context(), "a"); err != nil || got["a"] != "1" {
			t.Errorf("got %v, %v", got, err)
		}
		if count.logins.Load() != logins || count.renewals.Load() != renewals {
			t.Errorf("%d logins and %d renewals, want %d and %d", count.logins.Load(), count.renewals.Load(), logins,
				renewals)
		}
	}
	step(1, 0)
	step(1, 0)
	clock.offset.Store(int64(31 * time.Minute))
	step(1, 1)
	step(1, 1)
	// An operator revokes all tokens of the role.
	if err := s.do(t.Context(), http.MethodPut, "sys/leases/revoke-prefix/auth/approle/login", nil); err != nil {
		t.Fatal(err)
	}
	step(2, 1)
}

// A Vault that restarts says nothing of a token: the token is renewed once it can be, and a role keeps its secretID.
func TestATokenIsRenewedWhenVaultIsBack(t *testing.T) {
	t.Parallel()
	var renewals, away atomic.Int64
	vault := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{"data": {"data": {"a": "1"}}}`
		switch r.URL.Path {
		case "/v1/auth/token/lookup-self":
			answer = `{"data": {"ttl": 3600, "renewable": true}}`
		case "/v1/auth/token/renew-self":
			renewals.Add(1)
			answer = `{"auth": {"lease_duration": 3600, "renewable": true}}`
			fallthrough
		case "/v1/auth/approle/login":
			if status := away.Load(); status > 0 {
				w.WriteHeader(int(status))
				return
			}
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(vault.Close)
	clock := &clock{}
	open := func(credentials map[string]string) backend.Backend {
		at := backend.Vault{Addresses: thisMachine(), Address: vault.URL, Credentials: credentials}
		b, err := backend.NewVault(at, clock.now)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := open(map[string]string{"token": "x"})
	for i, step := range []struct{ minutes, away, renewals int64 }{
		{0, 0, 0}, {31, http.StatusServiceUnavailable, 1}, {32, http.StatusNotFound, 2}, {33, 0, 3}, {34, 0, 3},
	} {
		clock.offset.Store(step.minutes * int64(time.Minute))
		away.Store(step.away)
		if got, err := b.Read(t.Context(), "a"); err != nil || got["a"] != "1" || renewals.Load() != step.renewals {
			t.Errorf("step %d: got %v, %v after %d renewals, want %d", i, got, err, renewals.Load(), step.renewals)
		}
	}
	for status, want := range map[int64]string{
		http.StatusServiceUnavailable: "answers 503", http.StatusNotFound: "answers 404 when asked to log in",
	} {
		away.Store(status)
		_, err := open(map[string]string{"roleID": "x", "secretID": "y"}).Read(t.Context(), "a")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a login while Vault restarts: %v, want %s", err, want)
		}
	}
}

// A path that a policy forbids costs no login at each read: Vault keeps a lease for each, and a secretID may have a
// bounded number of uses. A token that was revoked is replaced.
func TestAForbiddenPathCostsNoLogin(t *testing.T) {
	t.Parallel()
	var logins, revoked atomic.Int64
	vault := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dead := r.Header.Get("X-Vault-Token") == fmt.Sprint(revoked.Load())
		switch {
		case r.URL.Path == "/v1/auth/approle/login":
			_, _ = fmt.Fprintf(w, `{"auth": {"client_token": "%d", "lease_duration": 3600}}`, logins.Add(1))
		case dead || r.URL.Path == "/v1/secret/data/forbidden":
			w.WriteHeader(http.StatusForbidden)
		default:
			_, _ = io.WriteString(w, `{"data": {"data": {"a": "1"}}}`)
		}
	}))
	t.Cleanup(vault.Close)
	b, err := backend.NewVault(backend.Vault{
		Addresses: thisMachine(), Address: vault.URL, Credentials: map[string]string{"roleID": "x", "secretID": "y"},
	}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, err := b.Read(t.Context(), "forbidden")
		if err == nil || !strings.Contains(err.Error(), "does not let us read secret/forbidden (403)") {
			t.Errorf("got %v", err)
		}
	}
	if logins.Load() != 1 {
		t.Errorf("%d logins, want 1", logins.Load())
	}
	revoked.Store(1)
	if got, err := b.Read(t.Context(), "a"); err != nil || got["a"] != "1" || logins.Load() != 2 {
		t.Errorf("got %v, %v after %d logins, want 2", got, err, logins.Load())
	}
}

// A server before a Vault answers 404, too, as does a Vault whose engine is off: neither says that values were deleted.
func TestOnlyVaultSaysThatNothingIsThere(t *testing.T) {
	t.Parallel()
	for answer, gone := range map[string]bool{
		`{"errors": []}`: true,
		`{"data": {"data": null, "metadata": {"deletion_time": "2026-01-02T03:04:05Z", "version": 1}}}`: true,
		`{"errors": ["no handler for route \"secret/data/a\". route entry not found."]}`:                false,
		`{"errors": null}`:       false,
		`{"data": {}}`:           false,
		`{}`:                     false,
		`[]`:                     false,
		"404 page not found\n":   false,
		"default backend - 404":  false,
		"<html>Not Found</html>": false,
		"":                       false,
	} {
		srv, _ := counted(t, notFound(answer))
		b, err := byAddress(srv.URL, thisMachine())["vault"]()
		if err != nil {
			t.Fatal(err)
		}
		expectGone(t, b, "a", answer, gone)
	}
}

// notFound answers 404 with a text.
func notFound(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, text)
	}
}

// expectGone reads what is answered by 404: either nothing is there, or nothing is known of it.
func expectGone(t *testing.T, b backend.Backend, path, answer string, gone bool) {
	t.Helper()
	got, err := b.Read(t.Context(), path)
	if got != nil || errors.Is(err, backend.ErrNotFound) != gone {
		t.Errorf("404 with %q: got %v, %v; gone is %v", answer, got, err, gone)
	}
	if !gone && (err == nil || !strings.Contains(err.Error(), "answers 404 when asked to read")) {
		t.Errorf("404 with %q: got %v", answer, err)
	}
}

func TestVaultSaysWhatItMayNot(t *testing.T) {
	t.Parallel()
	s := vaultServer(t)
	s.engine(t, "refused")
	bad := s.role(t, "refused", "1h", nil)
	bad["secretID"] = "planted-zq81x7"
	count := &seen{}
	away := httptest.NewServer(nil)
	away.Close()
	for want, at := range map[string]backend.Vault{
		"does not let us read refused/a (403)": {
			Addresses: thisMachine(), Address: s.Address, Mount: "refused",
			Credentials: map[string]string{"token": "planted-zq81x7", "ca.crt": s.CA},
		},
		"does not let the role of its Secret log in": {
			Addresses: thisMachine(), Address: s.Address, Mount: "refused", Credentials: bad,
		},
		"certificate": {
			Addresses: thisMachine(), Address: s.Address, Mount: "refused",
			Credentials: map[string]string{"token": s.Token},
		},
		"connection refused": {
			Addresses: thisMachine(), Address: away.URL, Credentials: map[string]string{"token": s.Token},
		},
		"does not let us read secret/a (40": {
			Addresses: thisMachine(), Address: vaultProxy(t, s, count).URL, Namespace: "team",
			Credentials: map[string]string{"token": "planted-zq81x7"},
		},
	} {
		b, err := backend.NewVault(at, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Read(t.Context(), "a")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "planted-zq81x7") ||
			strings.Contains(err.Error(), s.Token) {
			t.Errorf("got %v, want %s", err, want)
		}
		if errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrPath) {
			t.Errorf("%v counts as an answer", err)
		}
	}
	if count.namespaces.Load() == 0 {
		t.Error("the namespace was not sent")
	}
	for want, credentials := range map[string]map[string]string{
		"either token, or roleID and secretID": {"roleID": "x"},
		"ca.crt":                               {"token": "x", "ca.crt": "x"},
	} {
		if _, err := backend.NewVault(backend.Vault{
			Addresses: thisMachine(), Address: s.Address, Credentials: credentials,
		}, time.Now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// forward sends a request on to a Vault and its answer back.
func forward(w http.ResponseWriter, r *http.Request, to server) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, to.Address+r.URL.RequestURI(), r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	req.Header = r.Header.Clone()
	req.Header.Del("X-Vault-Namespace") // there are none in this edition
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(to.CA))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}
