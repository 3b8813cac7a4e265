package attack

import (
	"context"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"

	"fairlead.dev/platform/identity"
)

const (
	// clientID and clientSecret are what the provider knows the console by.
	clientID     = "hub"
	clientSecret = "a-secret-of-a-client" //nolint:gosec // of this run
)

// provider is a real identity provider. The attacks have its key, and may put another ID token in the place of the one that it gives.
type provider struct {
	*httptest.Server
	key *rsa.PrivateKey
	id  string // of the key

	mu     sync.Mutex // guards what follows
	inner  http.Handler
	forged map[string]forgery // by code
	asked  map[string]int     // exchanges of a code
}

// forgery makes an ID token out of the claims of a good one.
type forgery func(claims map[string]any) (string, error)

func newProvider() *provider {
	p := &provider{forged: map[string]forgery{}, asked: map[string]int{}}
	p.Server = httptest.NewServer(p)
	return p
}

// flags are those of a console whose people log in at the provider.
func (p *provider) flags(dir string) ([]string, error) {
	file := filepath.Join(dir, "client-secret")
	return []string{
		"--oidc-issuer", p.URL, "--oidc-client-id", clientID, "--oidc-client-secret-file", file, "--oidc-admin-group", "hub-admins",
	}, os.WriteFile(file, []byte(clientSecret), 0o600)
}

// serve begins to be the provider of a console.
func (p *provider) serve(ctx context.Context, console string) error {
	storage.RegisterClients(storage.WebClient(clientID, clientSecret, console+"/v1/login/callback"))
	kept := storage.NewStorage(storage.NewUserStore(p.URL))
	key, err := kept.SigningKey(ctx)
	if err != nil {
		return err
	}
	private, ok := key.Key().(*rsa.PrivateKey)
	if !ok {
		return errors.New("the provider's key is of another kind")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.id = private, key.ID()
	p.inner = exampleop.SetupServer(p.URL, kept, slog.New(slog.DiscardHandler), false)
	return nil
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	inner := p.inner
	p.mu.Unlock()
	switch {
	case inner == nil:
		http.Error(w, "not yet", http.StatusServiceUnavailable)
	case r.URL.Path != "/oauth/token":
		inner.ServeHTTP(w, r)
	default:
		p.exchange(w, r, inner)
	}
}

// exchange gives tokens for a code, or forged ones.
func (p *provider) exchange(w http.ResponseWriter, r *http.Request, inner http.Handler) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	code := r.PostForm.Get("code")
	p.mu.Lock()
	p.asked[code]++
	forge := p.forged[code]
	p.mu.Unlock()
	if forge == nil {
		inner.ServeHTTP(w, r)
		return
	}
	given := httptest.NewRecorder()
	inner.ServeHTTP(given, r)
	var answer map[string]any
	err := json.Unmarshal(given.Body.Bytes(), &answer)
	text, _ := answer["id_token"].(string)
	if parts := strings.Split(text, "."); err == nil && len(parts) == 3 {
		var claims map[string]any
		plain, decode := base64.RawURLEncoding.DecodeString(parts[1])
		if err = errors.Join(decode, json.Unmarshal(plain, &claims)); err == nil {
			answer["id_token"], err = forge(claims)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(given.Code)
	_ = json.NewEncoder(w).Encode(answer) // the console says what it got
}

// exchanges is how often a code was exchanged.
func (p *provider) exchanges(code string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[code]
}

func (p *provider) forge(code string, f forgery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forged[code] = f
}

// sign makes an ID token of claims, with the provider's key or another one.
func (p *provider) sign(algorithm jose.SignatureAlgorithm, key any, claims map[string]any) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: p.id}}, nil)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(text)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// named are the claims of a person whose address the provider has verified.
func (p *provider) named(email string) map[string]any {
	return map[string]any{"email": email, "email_verified": true}
}

// with signs the claims with changes, as the provider; a change to nil leaves the claim out.
func (p *provider) with(changes map[string]any) forgery {
	return func(claims map[string]any) (string, error) {
		maps.Copy(claims, changes)
		maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
		return p.sign(jose.RS256, p.key, claims)
	}
}

// coming is a browser on its way back from the provider: what the console gave it, and what the provider did.
type coming struct {
	cookie, // name=value, sealed by the console
	state, code string
	person string // whom the provider names: another one each time, because a person has a bounded rate of logins
}

var authRequest = regexp.MustCompile(`authRequestID=([^&"]+)`)

// atProvider begins a login at the console and finishes it at the provider.
func (t *Try) atProvider(ctx context.Context, back string) (c coming, err error) {
	begin, err := t.get(ctx, t.world.Hub[console]+"/v1/login?return="+url.QueryEscape(back), "")
	if err != nil {
		return c, err
	}
	if c.cookie, _, _ = strings.Cut(begin.Header.Get("Set-Cookie"), ";"); begin.Code != http.StatusSeeOther || c.cookie == "" {
		return c, fmt.Errorf("no login begins: %s", begin)
	}
	page, err := t.get(ctx, begin.Header.Get("Location"), "")
	if err != nil {
		return c, err
	}
	found := authRequest.FindStringSubmatch(page.Header.Get("Location"))
	if found == nil {
		return c, fmt.Errorf("the provider does not ask who it is: %s", page)
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(t.world.provider.URL, "http://"), ":")
	form := url.Values{"username": {"test-user@" + host}, "password": {"verysecure"}, "id": {found[1]}}
	in, err := t.send(ctx, http.MethodPost, t.world.provider.URL+"/login/username", "", strings.NewReader(form.Encode()), "Content-Type", "application/x-www-form-urlencoded")
	if err != nil {
		return c, err
	}
	leads, err := t.get(ctx, absolute(t.world.provider.URL, in.Header.Get("Location")), "")
	if err != nil {
		return c, err
	}
	to, err := url.Parse(leads.Header.Get("Location"))
	if err != nil {
		return c, err
	}
	c.state, c.code = to.Query().Get("state"), to.Query().Get("code")
	if c.state == "" || c.code == "" || !strings.HasPrefix(to.String(), t.world.Hub[console]+"/v1/login/callback?") {
		return c, fmt.Errorf("the provider leads to %s", to)
	}
	c.person = fmt.Sprintf("person-%d@example.com", t.world.tries.Add(1))
	t.world.provider.forge(c.code, t.world.provider.with(t.world.provider.named(c.person)))
	return c, nil
}

func absolute(base, to string) string {
	if strings.HasPrefix(to, "/") {
		return base + to
	}
	return to
}

// finish comes back to the console.
func (t *Try) finish(ctx context.Context, c coming) (Answer, error) {
	var headers []string
	if c.cookie != "" {
		headers = []string{"Cookie", c.cookie}
	}
	query := url.Values{"state": {c.state}, "code": {c.code}}
	return t.send(ctx, http.MethodGet, t.world.Hub[console]+"/v1/login/callback?"+query.Encode(), "", nil, headers...)
}

// sessionOf is the cookie of the session that an answer begins; empty: it begins none.
func sessionOf(a Answer) string {
	for _, line := range a.Header["Set-Cookie"] {
		cookie, _, _ := strings.Cut(line, ";")
		if value, ok := strings.CutPrefix(cookie, identity.SessionCookie+"="); ok && value != "" {
			return cookie
		}
	}
	return ""
}

// whose returns whom a session is of.
func (t *Try) whose(ctx context.Context, cookie string) (user string, groups []string, err error) {
	a, err := t.send(ctx, http.MethodGet, t.world.Hub[console]+"/v1/session", "", nil, "Cookie", cookie, "Sec-Fetch-Site", "same-origin")
	if err != nil {
		return "", nil, err
	}
	var told struct {
		User   string
		Groups []string
	}
	if a.Code != http.StatusOK {
		return "", nil, errors.New(a.String())
	}
	err = json.Unmarshal([]byte(a.Body), &told)
	return told.User, told.Groups, err
}
