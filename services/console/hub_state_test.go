package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/version"
	"fairlead.dev/services/console"
)

// An administrator sees how the database is, and which alerts fire; other people see which version it is and where
// traces are.
func TestHowTheHubIs(t *testing.T) {
	t.Parallel()
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"status": "success", "data": {"alerts": [{"labels": {"alertname": "FairleadDown", "severity": "critical", "job": "fairlead-tunnel"},
			"annotations": {"summary": "it is not there"}, "state": "firing", "activeAt": "2026-11-22T10:00:00Z"}]}}`)
	}))
	t.Cleanup(prometheus.Close)
	r := newHub(t, "").startWith(t, func(c *console.Config) {
		c.TraceURL, c.PrometheusURL = "https://jaeger.example.com/trace/{trace}", prometheus.URL
	})
	admin := r.admin(t)
	var is *consolev1.GetHubResponse
	await(t, "the database was asked", func() bool {
		var err error
		is, err = admin.admin.GetHub(t.Context(), &consolev1.GetHubRequest{Condition: true})
		return err == nil && is.GetDatabase().GetSince() != nil
	})
	db := is.GetDatabase()
	if db.GetKind() == "" || db.GetVersion() == "" || db.GetBytes() <= 0 || db.GetProblem() != "" ||
		db.GetRoundTrip().AsDuration() <= 0 {
		t.Errorf("got %v", db)
	}
	if db.GetWriteDuration().AsDuration() <= 0 || time.Since(db.GetWriteTime().AsTime()) > time.Minute { // of the login
		t.Errorf("the last write: %v", db)
	}
	if is.GetVersion() != version.String() || is.GetStartTime() == nil ||
		!strings.Contains(is.GetTraceUrl(), "{trace}") {
		t.Errorf("got %v", is)
	}
	if fire := is.GetAlerts().GetAlerts(); len(fire) != 1 || fire[0].GetName() != "FairleadDown" ||
		fire[0].GetLabels()["job"] != "fairlead-tunnel" || !is.GetAlerts().GetConfigured() {
		t.Errorf("got %v", is.GetAlerts())
	}

	if plain, err := admin.admin.GetHub(t.Context(),
		&consolev1.GetHubRequest{}); err != nil || plain.GetVersion() == "" || plain.GetDatabase() != nil ||
		plain.GetAlerts() != nil {
		t.Errorf("what nobody asked for: %v, %v", plain, err)
	}
	person := r.as(t, r.sign(t, identity.Identity{Kind: identity.KindUser, Name: "vera"}))
	seen, err := person.admin.GetHub(t.Context(), &consolev1.GetHubRequest{Condition: true})
	if err != nil || seen.GetVersion() == "" || seen.GetTraceUrl() == "" || seen.GetDatabase() != nil ||
		seen.GetAlerts() != nil {
		t.Errorf("a person sees %v, %v", seen, err)
	}
}

func TestAddressesOfTracesAndAlertsAreChecked(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]console.Config{
		"--trace-url: must have {trace}":     {TraceURL: "https://jaeger.example.com/trace/"},
		"--trace-url: must be a URL":         {TraceURL: "javascript:alert('{trace}')"},
		"--prometheus-url: must be a URL":    {PrometheusURL: "prometheus:9090"},
		"without --prometheus-url":           {PrometheusTokenFile: "token"},
		"without user and password":          {PrometheusURL: "https://user:password@prometheus.example.com"},
		"--prometheus-url: must be a URL su": {PrometheusURL: "file:///etc/passwd"},
	} {
		cfg.DataDir = t.TempDir()
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
