package acceptance

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
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
	await.True(t, "the database was asked", func() bool {
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

// Each console lists all that share its database, and which of them answers; one that ended is not there.
func TestConsolesKnowEachOther(t *testing.T) {
	t.Parallel()
	h := newHub(t, postgres.Database(t))
	one, two := h.start(t), h.start(t)
	admin, ofTwo := one.admin(t), two.admin(t)
	port := func(r *running) string { return r.url[strings.LastIndex(r.url, ":"):] }
	listed := func(a api, of ...*running) func() bool {
		return func() bool {
			is, err := a.admin.GetHub(t.Context(), &consolev1.GetHubRequest{Condition: true})
			if err != nil || is.GetConsolesMissing() != "" || len(is.GetConsoles()) != len(of) {
				return false
			}
			for _, c := range is.GetConsoles() {
				if c.GetVersion() != version.String() || c.GetStartTime() == nil ||
					!slices.ContainsFunc(of, func(r *running) bool { return strings.HasSuffix(c.GetName(), port(r)) }) ||
					c.GetAnswers() != strings.HasSuffix(c.GetName(), port(of[0])) {
					t.Fatalf("got %v", c)
				}
			}
			return true
		}
	}
	await.True(t, "the first one lists both", listed(admin, one, two))
	await.True(t, "the second one lists both", listed(ofTwo, two, one))
	two.stop()
	if !listed(admin, one)() {
		t.Error("a console that has ended is still listed")
	}

	consoles := func(a api) int {
		is, err := a.admin.GetHub(t.Context(), &consolev1.GetHubRequest{Condition: true})
		if err != nil {
			t.Fatal(err)
		}
		return len(is.GetConsoles())
	}
	admin.must(t, newCluster("edge-1"))
	admin.let(t, "seers", "viewer", &consolev1.GrantClusters{Names: []string{"edge-1"}})
	if n := consoles(one.user(t, "vera", "seers")); n != 1 {
		t.Errorf("a viewer sees %d consoles", n)
	}
	if n := consoles(one.user(t, "bob")); n != 0 {
		t.Errorf("a person without a grant sees %d consoles", n)
	}
}

// A database that is not shared has the console that answers.
func TestOneConsoleListsItself(t *testing.T) {
	t.Parallel()
	is, err := newHub(t, "").start(t).admin(t).admin.GetHub(t.Context(), &consolev1.GetHubRequest{Condition: true})
	if err != nil || len(is.GetConsoles()) != 1 || !is.GetConsoles()[0].GetAnswers() {
		t.Errorf("got %v, %v", is.GetConsoles(), err)
	}
}
