// Package provider is an identity provider that lies when an attack has it lie.
package provider

import (
	"context"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

const (
	// ClientID and clientSecret are what the provider knows the console by.
	ClientID     = "hub"
	clientSecret = "a-secret-of-a-client" //nolint:gosec // of this run
)

// Provider is a real identity provider. The attacks have its key, and may put another ID token in the place of the one
// that it gives.
type Provider struct {
	*httptest.Server
	key *rsa.PrivateKey
	id  string // of the key

	mu     sync.Mutex // guards what follows
	inner  http.Handler
	forged map[string]Forgery // by code
	asked  map[string]int     // exchanges of a code
}

// Forgery makes an ID token out of the claims of a good one.
type Forgery func(claims map[string]any) (string, error)

// New starts a provider that answers nobody before Serve.
func New() *Provider {
	p := &Provider{forged: map[string]Forgery{}, asked: map[string]int{}}
	p.Server = httptest.NewServer(p)
	return p
}

// Flags are those of a console whose people log in at the provider.
func (p *Provider) Flags(dir string) ([]string, error) {
	file := filepath.Join(dir, "client-secret")
	return []string{
		"--oidc-issuer", p.URL, "--oidc-client-id", ClientID, "--oidc-client-secret-file", file, "--oidc-admin-group", "hub-admins",
	}, os.WriteFile(file, []byte(clientSecret), 0o600)
}

// Serve begins to be the provider of a console.
func (p *Provider) Serve(ctx context.Context, console string) error {
	storage.RegisterClients(storage.WebClient(ClientID, clientSecret, console+"/v1/login/callback"))
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

func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
func (p *Provider) exchange(w http.ResponseWriter, r *http.Request, inner http.Handler) {
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

// Exchanges is how often a code was exchanged.
func (p *Provider) Exchanges(code string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[code]
}

// Forge has the token of a code forged.
func (p *Provider) Forge(code string, f Forgery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forged[code] = f
}

// PublicKey is the key that tokens are checked with.
func (p *Provider) PublicKey() *rsa.PublicKey { return &p.key.PublicKey }

// Sign makes an ID token of claims, with the provider's key or another one.
func (p *Provider) Sign(algorithm jose.SignatureAlgorithm, key any, claims map[string]any) (string, error) {
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

// Named are the claims of a person whose address the provider has verified.
func (p *Provider) Named(email string) map[string]any {
	return map[string]any{"email": email, "email_verified": true}
}

// With signs the claims with changes, as the provider; a change to nil leaves the claim out.
func (p *Provider) With(changes map[string]any) Forgery {
	return func(claims map[string]any) (string, error) {
		maps.Copy(claims, changes)
		maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
		return p.Sign(jose.RS256, p.key, claims)
	}
}
