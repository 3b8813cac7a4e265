package login

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
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
