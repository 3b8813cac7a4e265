package acceptance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/localca"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/console"
)

// browser is a page of the console in a browser that keeps cookies as RFC 6265 says.
type browser struct {
	*hub
	url    string
	client *http.Client
}

// browse starts a console with TLS.
func browse(t *testing.T) *browser {
	t.Helper()
	h := newHub(t, "")
	files, err := localca.Ensure(filepath.Join(h.dir, "ca"), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	cfg := console.Config{
		Server: server.Config{Listen: "127.0.0.1:0", CertFile: files.CertFile, KeyFile: files.KeyFile}, DataDir: h.dir,
	}
	service, err := console.New(cfg, console.Deps{
		Log: slog.New(slog.NewTextHandler(h.logs, nil)), Telemetry: telemetry.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx) }()
	ca, err := os.ReadFile(files.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("console ended: %v", err)
		}
	})
	return &browser{hub: h, url: service.URL(), client: &http.Client{Transport: transport, Jar: jar}}
}

// do sends what a page of the console sends; headers are pairs.
func (b *browser) do(t *testing.T, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", b.url)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// want expects a status.
func (b *browser) want(t *testing.T, code int, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	resp, text := b.do(t, method, path, body, headers...)
	if resp.StatusCode != code {
		t.Fatalf("%s %s: %d %s, want %d", method, path, resp.StatusCode, text, code)
	}
	return resp, text
}

func (b *browser) cookie(t *testing.T) string {
	t.Helper()
	at, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range b.client.Jar.Cookies(at) {
		if c.Name == identity.SessionCookie {
			return c.Value
		}
	}
	return ""
}

const (
	identities  = "/fairlead.console.v1.IdentityService/"
	getSources  = "/fairlead.console.v1.SourceService/ListSources"
	putClusters = "/fairlead.console.v1.ClusterService/UpdateCluster"
	putCluster  = `{"cluster": {"metadata": {"name": "edge-1"}}, "allowMissing": true}`
)

// exchange is the login with the hub secret.
func (b *browser) exchange(t *testing.T) string {
	t.Helper()
	_, text := b.want(t, http.StatusOK, "POST", identities+"ExchangeHubSecret",
		`{"hubSecret": "a hub secret for tests", "administrator": "ada"}`)
	var resp struct {
		Token struct{ Token string }
	}
	if err := json.Unmarshal([]byte(text), &resp); err != nil {
		t.Fatal(err)
	}
	return resp.Token.Token
}

func TestBrowserLogsInWorksAndLogsOut(t *testing.T) {
	t.Parallel()
	b := browse(t)
	token := b.exchange(t)
	b.want(t, http.StatusUnauthorized, "POST", "/v1/session", "")
	resp, text := b.want(t, http.StatusOK, "POST", "/v1/session", "", "Authorization", "Bearer "+token)
	set := resp.Header.Get("Set-Cookie")
	for _, attribute := range []string{
		"__Host-fairlead=", "Path=/;", "Max-Age=", "HttpOnly", "Secure", "SameSite=Strict",
	} {
		if !strings.Contains(set, attribute) {
			t.Errorf("cookie without %s", attribute)
		}
	}
	if strings.Contains(set, "Domain") || strings.Contains(text, b.cookie(t)) ||
		!strings.Contains(text, `"user":"ada"`) || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v %s", resp.Header, text)
	}
	first := b.cookie(t)
	if first == "" || first == token {
		t.Fatal("no token of the session's own")
	}

	b.want(t, http.StatusOK, "POST", getSources, "{}", "Connect-Protocol-Version", "1")
	b.want(t, http.StatusOK, "POST", putClusters, putCluster, identity.CSRFHeader, "1")
	b.want(t, http.StatusForbidden, "POST", putClusters, putCluster)
	b.want(t, http.StatusForbidden, "POST", putClusters, putCluster, identity.CSRFHeader, "1", "Origin",
		"https://evil.example")
	b.want(t, http.StatusForbidden, "GET", "/metrics", "", "Sec-Fetch-Site", "same-site")
	b.want(t, http.StatusUnauthorized, "POST", putClusters, putCluster, identity.CSRFHeader, "1", "Authorization",
		"Bearer forged")
	// No script gets a token out of it.
	for _, body := range []string{`{}`, `{"lifetime": "600s"}`} {
		if resp, text := b.do(t, "POST", identities+"RenewToken", body, identity.CSRFHeader,
			"1"); resp.StatusCode == http.StatusOK || strings.Contains(text, `"token"`) {
			t.Errorf("RenewToken: %d %s", resp.StatusCode, text)
		}
	}
	if resp, text := b.do(t, "POST", identities+"CreateUserToken", `{"user": "eve"}`, identity.CSRFHeader,
		"1"); resp.StatusCode == http.StatusOK || strings.Contains(text, `"token"`) {
		t.Errorf("CreateUserToken: %d %s", resp.StatusCode, text)
	}

	// Renewed by its cookie, and only by a page of the console.
	b.want(t, http.StatusForbidden, "POST", "/v1/session", "", identity.CSRFHeader, "1", "Origin",
		"https://evil.example")
	b.want(t, http.StatusForbidden, "POST", "/v1/session", "")
	b.want(t, http.StatusOK, "POST", "/v1/session", "", identity.CSRFHeader, "1")
	second := b.cookie(t)
	if second == first {
		t.Error("the cookie was not renewed")
	}
	if _, text := b.want(t, http.StatusOK, "GET", "/v1/session", ""); !strings.Contains(text, `"user":"ada"`) {
		t.Error(text)
	}

	// Another login is another session.
	b.want(t, http.StatusOK, "POST", "/v1/session", "", "Authorization", "Bearer "+token)
	third := b.cookie(t)
	b.want(t, http.StatusForbidden, "DELETE", "/v1/session", "")
	b.want(t, http.StatusBadRequest, "DELETE", "/v1/session", "", "Authorization", "Bearer "+token)
	b.want(t, http.StatusNoContent, "DELETE", "/v1/session", "", identity.CSRFHeader, "1")
	if b.cookie(t) != "" {
		t.Error("the browser keeps the cookie")
	}
	b.want(t, http.StatusUnauthorized, "GET", "/v1/session", "", "Cookie", identity.SessionCookie+"="+third)
	b.want(t, http.StatusOK, "GET", "/v1/session", "", "Cookie", identity.SessionCookie+"="+second)
	b.want(t, http.StatusOK, "GET", "/v1/session", "", "Authorization", "Bearer "+token)

	// A call that ends the login, or all of the user's, ends the sessions.
	b.want(t, http.StatusOK, "POST", identities+"RevokeTokens", `{"tokenId": "`+tokenID(t, token)+`"}`,
		"Authorization", "Bearer "+b.exchange(t))
	b.want(t, http.StatusUnauthorized, "GET", "/v1/session", "", "Cookie", identity.SessionCookie+"="+second)
}

// A person who lost a laptop ends all logins from another browser. API tokens and other people stay.
func TestPersonLogsOutEverywhere(t *testing.T) {
	t.Parallel()
	b := browse(t)
	token := b.exchange(t)
	_, text := b.want(t, http.StatusOK, "POST", identities+"ExchangeHubSecret",
		`{"hubSecret": "a hub secret for tests", "administrator": "bob"}`)
	var bob struct{ Token struct{ Token string } }
	if err := json.Unmarshal([]byte(text), &bob); err != nil {
		t.Fatal(err)
	}
	b.want(t, http.StatusOK, "POST", "/v1/session", "", "Authorization", "Bearer "+token)
	lost := b.cookie(t)
	b.want(t, http.StatusOK, "POST", "/v1/session", "", "Authorization", "Bearer "+token)
	_, text = b.want(t, http.StatusOK, "POST", "/fairlead.console.v1.TokenService/CreateToken",
		`{"description": "ci"}`, "Authorization", "Bearer "+token)
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(text), &made); err != nil || made.Token == "" {
		t.Fatalf("%s %v", text, err)
	}

	b.want(t, http.StatusForbidden, "DELETE", "/v1/session?everywhere", "")
	b.want(t, http.StatusBadRequest, "DELETE", "/v1/session?everywhere", "", "Authorization", "Bearer "+token)
	resp, _ := b.want(t, http.StatusNoContent, "DELETE", "/v1/session?everywhere", "", identity.CSRFHeader, "1")
	if b.cookie(t) != "" || !strings.Contains(resp.Header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("the browser keeps the cookie: %v", resp.Header)
	}
	b.want(t, http.StatusUnauthorized, "GET", "/v1/session", "", "Cookie", identity.SessionCookie+"="+lost)
	b.want(t, http.StatusUnauthorized, "GET", "/v1/session", "", "Authorization", "Bearer "+token)
	b.want(t, http.StatusOK, "GET", "/v1/session", "", "Authorization", "Bearer "+bob.Token.Token)
	b.want(t, http.StatusOK, "POST", getSources, "{}", "Authorization", "Bearer "+made.Token)
	_, trail := b.want(t, http.StatusOK, "POST", "/fairlead.console.v1.AuditService/ListAuditEvents",
		`{"filter": {"action": "session.end"}}`, "Authorization", "Bearer "+bob.Token.Token)
	if strings.Count(trail, `"session.end"`) != 1 || !strings.Contains(trail, "all logins of user:ada") {
		t.Errorf("the trail says %s", trail)
	}
}

// tokenID reads the id off a token.
func tokenID(t *testing.T, token string) string {
	t.Helper()
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		ID string `json:"jti"`
	}
	if err := json.Unmarshal(claims, &c); err != nil {
		t.Fatal(err)
	}
	return c.ID
}

func TestLoginsInBrowsersAreThrottled(t *testing.T) {
	t.Parallel()
	b := browse(t)
	token := b.exchange(t)
	for range 100 {
		resp, text := b.do(t, "POST", "/v1/session", "", "Authorization", "Bearer "+token)
		if resp.StatusCode == http.StatusTooManyRequests {
			if resp.Header.Get("Retry-After") == "" || !strings.Contains(text, "too many logins") {
				t.Errorf("%v %s", resp.Header, text)
			}
			return
		}
	}
	t.Error("nobody was throttled")
}

func TestNoSessionsWithoutTLS(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	token := r.adminToken(t)
	b := &browser{hub: r.hub, url: r.url, client: newHTTPClient(t)}
	if _, text := b.want(t, http.StatusBadRequest, "POST", "/v1/session", "", "Authorization",
		"Bearer "+token); !strings.Contains(text, "--tls-cert") {
		t.Error(text)
	}
	b.want(t, http.StatusForbidden, "GET", "/v1/session", "", "Cookie", identity.SessionCookie+"="+token)
	b.want(t, http.StatusOK, "GET", "/v1/session", "", "Authorization", "Bearer "+token)
}

func TestOnlyPeopleHaveSessions(t *testing.T) {
	t.Parallel()
	b := browse(t)
	b.exchange(t) // the console has started
	agent := b.sign(t, identity.Identity{Kind: identity.KindAgent, Name: "edge-1"})
	header := http.Header{}
	identitytest.Authorize(t, header, agent, identity.ServiceConsole)
	b.want(t, http.StatusForbidden, "POST", "/v1/session", "", "Authorization", header.Get("Authorization"),
		identity.ProofHeader, header.Get(identity.ProofHeader))
	many := make([]string, identity.MaxGroups)
	for i := range many {
		many[i] = strings.Repeat("g", 100)
	}
	crowd := b.sign(t, identity.Identity{Kind: identity.KindUser, Name: "bob", Groups: many})
	if resp, text := b.want(t, http.StatusBadRequest, "POST", "/v1/session", "", "Authorization",
		"Bearer "+crowd); !strings.Contains(text, "groups") || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("%v %s", resp.Header, text)
	}
}
