package peers

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/services/gitcache/internal/owner"
)

// line counts requests and goes nowhere.
type line struct{ seen []string }

func (w *line) RoundTrip(r *http.Request) (*http.Response, error) {
	w.seen = append(w.seen, r.URL.Host)
	rec := httptest.NewRecorder()
	rec.WriteHeader(http.StatusNotFound)
	resp := rec.Result()
	resp.Request = r
	return resp, nil
}

// Any program that reaches Redis may have written what is in Redis.
func TestAForgedReplicaIsNotAskedInClearText(t *testing.T) {
	t.Parallel()
	c, err := coordination.Open("memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for id, url := range map[string]string{"evil": "http://evil.example:7401", "good": "https://good.example:7401"} {
		if err := c.Join(t.Context(), Group, coordination.Member{ID: id, URL: url}, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Acquire(t.Context(), owner.LeaseKey("uid"), "evil", time.Minute); err != nil {
		t.Fatal(err)
	}
	w := &line{}
	p := New(Config{Replica: "me"}, Deps{
		Coordinator: c, Client: &http.Client{Transport: w}, Log: slog.New(slog.DiscardHandler),
	})
	if m, ok := p.OwnerMember(t.Context(), "uid"); ok {
		t.Errorf("the forged owner is to be asked at %s", m.URL)
	}
	if holders := p.Holders(t.Context(), "uid"); len(holders) != 1 || holders[0].ID != "good" {
		t.Errorf("those that may have it are %v", holders)
	}
	if _, err := p.Open(t.Context(), artifact.Digest("sha256:"+strings.Repeat("0", 64))); err == nil {
		t.Error("an artifact from nowhere")
	}
	if got := strings.Join(w.seen, " "); got != "good.example:7401" {
		t.Errorf("asked %q", got)
	}
}
