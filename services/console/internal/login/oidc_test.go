package login

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// A caller that waits for a provider that hangs waits for as long as it wants to, and all callers for the same answer.
func TestAProviderThatHangsIsAskedOnceAndHoldsNobody(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	var provider *httptest.Server
	provider = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			close(asked)
		}
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": provider.URL, "jwks_uri": provider.URL, "scopes_supported": []string{"groups"},
		})
	}))
	t.Cleanup(provider.Close)
	p := New(Config{Issuer: provider.URL, ClientID: "fairlead"})

	var waiting sync.WaitGroup
	for range 5 {
		waiting.Go(func() {
			if scopes, err := p.Scopes(t.Context()); err != nil || len(scopes) != 4 {
				t.Errorf("got %v, %v", scopes, err)
			}
		})
	}
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Scopes(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("who went away: %v", err)
	}
	close(release)
	waiting.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// A provider whose endpoint for names and groups can't be reached, or fails, says nothing of a person's groups, unless
// the ID token does: nobody is logged in without theirs for that. An endpoint that refuses the login has no more to say.
func TestALoginNeedsTheGroupsFromSomewhere(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "one"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	away := httptest.NewServer(nil)
	away.Close()
	for name, of := range map[string]struct {
		endpoint, token int // status; 0: of the endpoint that it is away, of the token that it is given
		groups          []string
		away            bool
	}{
		"in the ID token":              {groups: []string{"dev"}},
		"at the endpoint":              {away: true},
		"at an endpoint that fails":    {endpoint: http.StatusServiceUnavailable, away: true},
		"at an endpoint that is busy":  {endpoint: http.StatusTooManyRequests, away: true},
		"nowhere":                      {endpoint: http.StatusForbidden},
		"of a provider without tokens": {groups: []string{"dev"}, token: http.StatusBadGateway, away: true},
	} {
		groups := of.groups
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := map[string]any{"/keys": jose.JSONWebKeySet{
				Keys: []jose.JSONWebKey{{Key: public, KeyID: "one", Algorithm: "EdDSA", Use: "sig"}},
			}}
			provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if status := map[string]int{"/info": of.endpoint, "/token": of.token}[r.URL.Path]; status != 0 {
					w.WriteHeader(status)
				}
				_ = json.NewEncoder(w).Encode(answers[r.URL.Path])
			}))
			t.Cleanup(provider.Close)
			claims := map[string]any{
				"iss": provider.URL, "aud": "web", "sub": "1", "nonce": "n", "name": "kim",
				"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
			}
			if groups != nil {
				claims["groups"] = groups
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
			answers["/token"] = map[string]string{"access_token": "x", "token_type": "Bearer", "id_token": token}
			answers["/.well-known/openid-configuration"] = map[string]any{
				"issuer": provider.URL, "jwks_uri": provider.URL + "/keys", "token_endpoint": provider.URL + "/token",
				"userinfo_endpoint": away.URL, "id_token_signing_alg_values_supported": []string{"EdDSA"},
			}
			if of.endpoint != 0 {
				answers["/.well-known/openid-configuration"].(map[string]any)["userinfo_endpoint"] = provider.URL + "/info"
			}
			p := New(Config{Issuer: provider.URL, ClientID: "web", UserClaim: "name", GroupsClaim: "groups"})
			kim, err := p.Finish(t.Context(), provider.URL, "code", Pending{Nonce: "n", Verifier: "v"})
			switch {
			case of.away && !errors.Is(err, ErrAway):
				t.Errorf("logged in: %+v, %v", kim, err)
			case !of.away && (err != nil || !slices.Equal(kim.Groups, groups)):
				t.Errorf("got %+v, %v", kim, err)
			}
		})
	}
}

func TestAProviderInClearTextIsOnThisMachineOnly(t *testing.T) {
	t.Parallel()
	for issuer, good := range map[string]bool{
		"https://id.example.com": true, "http://127.0.0.1:5556": true, "http://localhost:5556": true,
		"http://[::1]:5556":           true,
		"http://127.attacker.example": false, "http://127.0.0.1.attacker.example": false,
		"http://id.example.com": false,
	} {
		cfg := Config{Issuer: issuer, ClientID: "fairlead", UserClaim: "email", GroupsClaim: "groups"}
		if err := cfg.Validate(); (err == nil) != good {
			t.Errorf("%s: %v", issuer, err)
		}
	}
}
