package agent

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"fairlead.dev/platform/telemetry"
)

func TestMetricsAreForThisMachineOrForTheToken(t *testing.T) {
	t.Parallel()
	const token = "what Prometheus was given"
	file := filepath.Join(t.TempDir(), "metrics.token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	scrapers, err := telemetry.NewScrapers(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		scrapers telemetry.Scrapers
		local    bool
		token    string
		want     int
	}{
		"this machine":             {local: true, want: http.StatusOK},
		"another":                  {want: http.StatusNotFound},
		"another, with the token":  {scrapers: scrapers, token: token, want: http.StatusOK},
		"another, with no token":   {scrapers: scrapers, want: http.StatusUnauthorized},
		"another, with some token": {scrapers: scrapers, token: "something else", want: http.StatusUnauthorized},
		"this, with no token":      {scrapers: scrapers, local: true, want: http.StatusUnauthorized},
	} {
		a := &Agent{telemetry: telemetry.Discard(), scrapers: c.scrapers}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+c.token)
		w := httptest.NewRecorder()
		a.healthHandler(a.metrics(c.local)).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
