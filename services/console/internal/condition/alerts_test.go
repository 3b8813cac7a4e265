package condition

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

const alertsOfPrometheus = `{"status": "success", "data": {"alerts": [
	{"labels": {"alertname": "FairleadSourceStale", "severity": "warning", "instance": "gitcache-0"}, "annotations": {"summary": "3 sources can't be polled"}, "state": "firing", "activeAt": "2026-11-22T10:00:00Z", "value": "3"},
	{"labels": {"alertname": "FairleadAgentsLost", "severity": "warning"}, "annotations": {}, "state": "pending", "activeAt": "2026-11-22T10:00:00Z"},
	{"labels": {"alertname": "NodeDown", "severity": "critical"}, "annotations": {}, "state": "firing", "activeAt": "2026-11-22T10:00:00Z"},
	{"labels": {"alertname": "FairleadSinkFailing", "severity": "warning"}, "annotations": {}, "state": "firing", "activeAt": "2026-11-22T09:00:00Z"},
	{"labels": {"alertname": "FairleadDown", "severity": "critical", "job": "fairlead-tunnel"}, "annotations": {"summary": "it is not there", "description": "For 5 minutes."}, "state": "firing", "activeAt": "2026-11-22T11:00:00Z"}
]}}`

// prometheus answers with what a test says, and counts the questions.
func prometheus(t *testing.T, answer http.HandlerFunc) (*Alerts, *atomic.Int64) {
	t.Helper()
	asked := new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return &Alerts{URL: s.URL + "/", HTTP: s.Client()}, asked
}

func TestAlertsOfTheHubThatFire(t *testing.T) {
	t.Parallel()
	a, asked := prometheus(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/alerts" || r.Header.Get("Authorization") != "Bearer the token" {
			t.Errorf("asked %s with %v", r.URL, r.Header)
		}
		fmt.Fprint(w, alertsOfPrometheus)
	})
	a.TokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(a.TokenFile, []byte("the token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := a.State(t.Context())
	var names []string
	for _, alert := range got.Alerts {
		names = append(names, alert.Name)
	}
	if strings.Join(names, " ") != "FairleadDown FairleadSinkFailing FairleadSourceStale" || !got.Configured ||
		got.Problem != "" || got.Asked.IsZero() {
		t.Errorf("got %+v", got)
	}
	if down := got.Alerts[0]; down.Severity != "critical" || down.Summary != "it is not there" ||
		down.Description != "For 5 minutes." || len(down.Labels) != 1 || down.Labels["job"] != "fairlead-tunnel" ||
		down.Since.Hour() != 11 {
		t.Errorf("got %+v", down)
	}
	a.State(t.Context())
	if asked.Load() != 1 {
		t.Errorf("Prometheus was asked %d times", asked.Load())
	}
	if none := new(Alerts).State(t.Context()); none.Configured || none.Problem != "" {
		t.Errorf("without an address: %+v", none)
	}
}

func TestWhyPrometheusSaysNothing(t *testing.T) {
	t.Parallel()
	for want, answer := range map[string]http.HandlerFunc{
		"check --prometheus-token-file": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
		},
		"HTTP 404: check": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
		},
		"not that of a Prometheus": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"more than 4 MiB": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Repeat(" ", maxAlertsBytes+1))
		},
		"does not answer: EOF. Check": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"not that of a Prometheus: check": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status": "error"}`)
		},
	} {
		a, _ := prometheus(t, answer)
		if got := a.State(t.Context()); !strings.Contains(got.Problem, want) || len(got.Alerts) > 0 || !got.Configured {
			t.Errorf("want %q, got %+v", want, got)
		}
	}
}

func FuzzAlerts(f *testing.F) {
	f.Add([]byte(alertsOfPrometheus))
	f.Fuzz(func(t *testing.T, body []byte) {
		alerts, err := decodeAlerts(body)
		if err != nil {
			return
		}
		if len(alerts) > maxAlerts {
			t.Errorf("%d alerts", len(alerts))
		}
		for _, a := range alerts {
			if len(a.Summary) > maxAlertText || !strings.HasPrefix(a.Name, alertPrefix) {
				t.Errorf("got %+v", a)
			}
		}
	})
}
