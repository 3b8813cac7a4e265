package acceptance

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console"
)

// provider is an identity provider whose keys the test has, for tokens that no honest one gives.
type provider struct {
	url  string
	key  *rsa.PrivateKey
	away atomic.Bool
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	var err error
	if p.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case p.away.Load():
			http.Error(w, "away", http.StatusBadGateway)
		case r.URL.Path == "/.well-known/openid-configuration":
			_ = json.NewEncoder(w).Encode(map[string]any{
				"issuer": p.url, "authorization_endpoint": p.url + "/auth", "token_endpoint": p.url + "/token",
				"jwks_uri":                              p.url + "/keys",
				"scopes_supported":                      []string{"openid", "groups"},
				"id_token_signing_alg_values_supported": []string{"RS256", "none", "HS256"},
			})
		case r.URL.Path == "/keys":
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{
				Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "one", Algorithm: "RS256", Use: "sig"}},
			})
		}
	}))
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

// claims of a good token, with changes.
func (p *provider) claims(change map[string]any) map[string]any {
	now := time.Now()
	out := map[string]any{
		"iss": p.url, "aud": "cli", "sub": "1", "email": "kim@example.com", "email_verified": true,
		"groups": []string{"dev", "hub-admins", "system:masters", identity.AdminsGroup},
		"iat":    now.Unix(), "exp": now.Add(time.Hour).Unix(), "jti": rand.Text(),
	}
	maps.Copy(out, change)
	return out
}

func (p *provider) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: p.key, KeyID: "one"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestGroupsBecomeRoles(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	r := newHub(t, "").startWith(t, func(c *console.Config) {
		c.OIDC.Issuer, c.OIDC.ClientID, c.OIDC.CLIClientID, c.OIDC.UserClaim, c.OIDC.GroupsClaim, c.OIDC.AdminGroup = p.url, "web", "cli", "email", "groups", "hub-admins"
	})
	nobody := r.as(t, "")
	options, err := nobody.logins.GetLoginOptions(t.Context(), &consolev1.GetLoginOptionsRequest{})
	if err != nil || options.GetOidc().GetIssuer() != p.url || options.GetOidc().GetClientId() != "cli" ||
		!slices.Contains(options.GetOidc().GetScopes(), "groups") {
		t.Fatal(options, err)
	}
	exchange := func(token string) (*consolev1.ExchangeIDTokenResponse, error) {
		return nobody.logins.ExchangeIDToken(t.Context(), &consolev1.ExchangeIDTokenRequest{IdToken: token})
	}
	good := p.sign(t, p.claims(nil))
	got, err := exchange(good)
	if err != nil || got.GetUser() != "kim@example.com" {
		t.Fatal(got, err)
	}
	kim := r.as(t, got.GetToken().GetToken())
	caller, err := kim.access.GetCaller(t.Context(), &consolev1.GetCallerRequest{})
	if err != nil || !caller.GetAdministrator() ||
		!slices.Equal(caller.GetGroups(), []string{identity.AdminsGroup, "dev", "hub-admins"}) {
		t.Errorf("got %v, %v", caller, err)
	}
	plain, err := exchange(p.sign(t,
		p.claims(map[string]any{"email": "bob@example.com", "groups": []string{identity.AdminsGroup, "dev"}})))
	if err != nil {
		t.Fatal(err)
	}
	bob, err := r.as(t, plain.GetToken().GetToken()).access.GetCaller(t.Context(), &consolev1.GetCallerRequest{})
	if err != nil || bob.GetAdministrator() {
		t.Errorf("the provider's word made an administrator: %v, %v", bob, err)
	}

	none := "eyJhbGciOiJub25lIn0." + strings.Split(p.sign(t, p.claims(nil)), ".")[1] + "."
	hmacSigner, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: p.key.N.Bytes()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(p.claims(nil))
	signed, err := hmacSigner.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	hmac, _ := signed.CompactSerialize()
	stranger := newProvider(t)
	old := time.Now().Add(-11 * time.Minute).Unix()
	for what, token := range map[string]string{
		"replayed":        good,
		"other audience":  p.sign(t, p.claims(map[string]any{"aud": "web-of-others"})),
		"two audiences":   p.sign(t, p.claims(map[string]any{"aud": []string{"cli", "other"}})),
		"other party":     p.sign(t, p.claims(map[string]any{"azp": "other"})),
		"other issuer":    p.sign(t, p.claims(map[string]any{"iss": stranger.url})),
		"other key":       stranger.sign(t, p.claims(nil)),
		"expired":         p.sign(t, p.claims(map[string]any{"exp": old})),
		"issued too long": p.sign(t, p.claims(map[string]any{"iat": old})),
		"of the future": p.sign(t,
			p.claims(map[string]any{
				"iat": time.Now().Add(time.Hour).Unix(), "exp": time.Now().Add(2 * time.Hour).Unix(),
			})),
		"no name":           p.sign(t, p.claims(map[string]any{"email": ""})),
		"no subject":        p.sign(t, p.claims(map[string]any{"sub": nil})),
		"empty subject":     p.sign(t, p.claims(map[string]any{"sub": ""})),
		"two addresses":     p.sign(t, p.claims(map[string]any{"email": "kim@example.com@evil.example"})),
		"no address":        p.sign(t, p.claims(map[string]any{"email": "kim"})),
		"unverified":        p.sign(t, p.claims(map[string]any{"email_verified": false})),
		"not said":          p.sign(t, p.claims(map[string]any{"email_verified": nil})),
		"service account":   p.sign(t, p.claims(map[string]any{"email": "serviceaccount:ci"})),
		"reserved name":     p.sign(t, p.claims(map[string]any{"email": "system:admin"})),
		"without algorithm": none,
		"by a public key":   hmac,
	} {
		if _, err := exchange(token); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("%s: %v", what, err)
		}
	}
	if refused := r.admin(t).reasons(t, "login.refused", 1); !strings.Contains(refused[0], "127.0.0.1: the ID token") {
		t.Errorf("the audit trail has %q", refused)
	}
	// A person who is logged in goes on without the provider; a login lasts 12 hours, however often it is renewed.
	p.away.Store(true)
	if _, err := kim.clusters.ListClusters(t.Context(), &consolev1.ListClustersRequest{}); err != nil {
		t.Errorf("with the provider away: %v", err)
	}
	renewed, err := kim.identity.RenewToken(t.Context(), &consolev1.RenewTokenRequest{})
	if err != nil || renewed.GetToken().GetExpireTime().AsTime().After(got.GetToken().GetExpireTime().AsTime().Add(time.Minute)) {
		t.Errorf("renewed until %v, %v", renewed.GetToken().GetExpireTime().AsTime(), err)
	}
	if strings.Contains(r.logs.String(), good) {
		t.Error("the log tells an ID token")
	}
}

// asserting is a provider that puts what it knows of users into their ID tokens, groups included.
type asserting struct{ *storage.Storage }

type assertingClient struct{ op.Client }

func (assertingClient) IDTokenUserinfoClaimsAssertion() bool { return true }

func (s asserting) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	return assertingClient{c}, err
}

func (s asserting) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest,
	scopes []string,
) error {
	if err := s.Storage.SetUserinfoFromRequest(ctx, info, token, scopes); err != nil {
		return err
	}
	info.AppendClaims("groups", []string{"staff"})
	return nil
}

// visitor is a browser that follows redirects by hand, for the hub's cookies are for TLS only, which ends at a proxy
// that is not there.
type visitor struct {
	t       *testing.T
	hc      *http.Client
	cookies map[string]string
}

func (b *visitor) do(method, to, body string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, to, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range b.cookies {
		req.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	resp, err := b.hc.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	for _, c := range resp.Cookies() {
		b.cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return resp
}

// location is where a response sends the browser.
func location(t *testing.T, resp *http.Response) string {
	t.Helper()
	to, err := resp.Location()
	if err != nil {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s: %v", resp.Request.URL, text, err)
	}
	return to.String()
}

// TestLoginWithOIDC logs in at a provider that others wrote.
func TestLoginWithOIDC(t *testing.T) {
	t.Parallel()
	var handler atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.Load().(http.Handler).ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	r := newHub(t, "").startWith(t, func(c *console.Config) {
		c.Server.Plaintext = true
		c.OIDC.Issuer, c.OIDC.ClientID, c.OIDC.UserClaim, c.OIDC.GroupsClaim, c.OIDC.AdminGroup = srv.URL, "hub", "email", "groups", "staff"
	})
	storage.RegisterClients(storage.NativeClient("hub", r.url+"/v1/login/callback"))
	var exchanges atomic.Int64
	handler.Store(countedAt("/oauth/token", &exchanges,
		exampleop.SetupServer(srv.URL, asserting{storage.NewStorage(storage.NewUserStore(srv.URL))},
			slog.New(slog.DiscardHandler), false)))

	hc := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	b := &visitor{t, hc, map[string]string{}}
	begin := b.do(http.MethodGet, r.url+"/v1/login?return=/services", "")
	to := location(t, begin)
	asked, err := url.Parse(to)
	if err != nil || asked.Query().Get("code_challenge_method") != "S256" || asked.Query().Get("nonce") == "" ||
		asked.Query().Get("state") == "" {
		t.Fatal(to, err)
	}
	back := logInAtProvider(t, b, srv.URL, to)
	other := &visitor{t, hc, map[string]string{}}
	if resp := other.do(http.MethodGet, back, ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a browser that did not begin it: %d", resp.StatusCode)
	}
	kept := b.cookies[identity.LoginCookie]
	done := b.do(http.MethodGet, back, "")
	if got := location(t, done); got != r.url+"/services" || b.cookies[identity.SessionCookie] == "" ||
		b.cookies[identity.LoginCookie] != "" {
		t.Fatalf("went to %s with %v", got, b.cookies)
	}
	session := r.as(t, b.cookies[identity.SessionCookie])
	caller, err := session.access.GetCaller(t.Context(), &consolev1.GetCallerRequest{})
	if err != nil || !strings.HasPrefix(caller.GetSubject(), "user:test-user@") || !caller.GetAdministrator() {
		t.Errorf("got %v, %v", caller, err)
	}
	if resp := b.do(http.MethodGet, back, ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("the same answer again: %d", resp.StatusCode)
	}
	// A page elsewhere can't choose where the browser goes then.
	for _, evil := range []string{"//evil.example.com", "https://evil.example.com", `/\evil.example.com`} {
		b := &visitor{t, hc, map[string]string{}}
		to := location(t, b.do(http.MethodGet, r.url+"/v1/login?return="+url.QueryEscape(evil), ""))
		if resp := b.do(http.MethodGet, logInAtProvider(t, b, srv.URL, to), ""); resp.StatusCode != http.StatusOK ||
			resp.Header.Get("Location") != "" {
			t.Errorf("%s: %d to %s", evil, resp.StatusCode, resp.Header.Get("Location"))
		}
	}
	// The cookie is sealed, so a script can keep it: it is good for one answer all the same, and wrong ones count for
	// their address.
	begun := exchanges.Load()
	for i := range 30 {
		b := &visitor{t, hc, map[string]string{identity.LoginCookie: kept}}
		resp := b.do(http.MethodGet, strings.Replace(back, "code=", "code="+strconv.Itoa(i), 1), "")
		if want := http.StatusUnauthorized; i < 10 && resp.StatusCode != want {
			t.Errorf("a code with a used cookie: %d", resp.StatusCode)
		} else if i == 29 && (resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "") {
			t.Errorf("many codes with a used cookie: %d", resp.StatusCode)
		}
	}
	if n := exchanges.Load() - begun; n != 0 {
		t.Errorf("the provider was asked %d times for one login", n+1)
	}
}

// countedAt counts requests to a path.
func countedAt(path string, n *atomic.Int64, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path {
			n.Add(1)
		}
		next.ServeHTTP(w, r)
	})
}

var authRequest = regexp.MustCompile(`authRequestID=([^&"]+)`)

// logInAtProvider returns where the provider sends the browser then.
func logInAtProvider(t *testing.T, b *visitor, at, to string) string {
	t.Helper()
	page := location(t, b.do(http.MethodGet, to, ""))
	found := authRequest.FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no request in %s", page)
	}
	host := strings.TrimPrefix(at, "http://")
	form := url.Values{
		"username": {"test-user@" + strings.Split(host, ":")[0]}, "password": {"verysecure"}, "id": {found[1]},
	}
	callback := location(t, b.do(http.MethodPost, at+"/login/username", form.Encode()))
	return location(t, b.do(http.MethodGet, callback, ""))
}

func TestLoginPageOfALink(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").startWith(t, func(c *console.Config) { c.Server.Plaintext = true })
	made, err := r.admin(t).logins.CreateLoginLink(t.Context(), &consolev1.CreateLoginLinkRequest{User: "kim"})
	if err != nil {
		t.Fatal(err)
	}
	page, code, _ := strings.Cut(made.GetLink(), "#")
	hc := newHTTPClient(t)
	resp, err := hc.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "<button") ||
		!strings.Contains(resp.Header.Get("Content-Security-Policy"), "script-src 'sha256-") ||
		!strings.Contains(resp.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	post := func(kind, code string) *http.Response {
		resp, err := hc.Post(page, kind, strings.NewReader(`{"code": "`+code+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	if resp := post("text/plain", code); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("what a form of another site can send: %d", resp.StatusCode)
	}
	if resp := post("application/json",
		base64.RawURLEncoding.EncodeToString([]byte(code))); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("made up: %d", resp.StatusCode)
	}
	if resp := post("application/json", code); resp.StatusCode != http.StatusOK || len(resp.Cookies()) != 1 ||
		resp.Cookies()[0].Name != identity.SessionCookie {
		t.Errorf("%d, %v", resp.StatusCode, resp.Cookies())
	}
	if resp := post("application/json", code); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("again: %d", resp.StatusCode)
	}
}
