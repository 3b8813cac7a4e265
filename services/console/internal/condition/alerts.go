package condition

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// alertPrefix begins the names of the rules in deploy/observability. A Prometheus may have thousands of others.
	alertPrefix = "Fairlead"
	// alertsFresh is how long an answer of Prometheus is told again: it evaluates the rules once a minute, as a rule.
	alertsFresh = 10 * time.Second
	// alertsPatience bounds one question, and maxAlertsBytes its answer.
	alertsPatience = 3 * time.Second
	maxAlertsBytes = 4 << 20
	// maxAlerts is how many are told, and maxAlertText how many bytes of each text.
	maxAlerts    = 200
	maxAlertText = 1024
)

// Alert is one that fires.
type Alert struct {
	Name, Severity, Summary, Description string
	Labels                               map[string]string
	Since                                time.Time
}

// AlertState is what Prometheus said last.
type AlertState struct {
	// Configured says that there is a Prometheus to ask.
	Configured bool
	Problem    string
	Asked      time.Time
	Alerts     []Alert
}

// Alerts asks a Prometheus which alerts of the hub fire. The zero value knows none.
type Alerts struct {
	// URL is that of Prometheus, and TokenFile has the bearer token for it; empty: none is sent.
	URL, TokenFile string
	// HTTP asks.
	HTTP *http.Client

	mu   sync.Mutex // held over a question, so that one is asked at a time; guards last
	last AlertState
}

// State is what Prometheus says, as of alertsFresh ago at most.
func (a *Alerts) State(ctx context.Context) AlertState {
	if a.URL == "" {
		return AlertState{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.last.Asked) < alertsFresh {
		return a.last
	}
	// The answer is for others, too, whatever becomes of the one who asks.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), alertsPatience)
	defer cancel()
	a.last = AlertState{Configured: true, Asked: time.Now()}
	alerts, err := a.ask(ctx)
	if err != nil {
		a.last.Problem = err.Error()
	}
	a.last.Alerts = alerts
	return a.last
}

func (a *Alerts) ask(ctx context.Context) ([]Alert, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(a.URL, "/")+"/api/v1/alerts", nil)
	if err != nil {
		return nil, errors.New("--prometheus-url can't be used")
	}
	if a.TokenFile != "" {
		token, err := os.ReadFile(a.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("--prometheus-token-file: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := a.HTTP.Do(req)
	if err != nil {
		if wrapped := new(url.Error); errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("prometheus does not answer: %w. Check --prometheus-url", err)
	}
	defer func() { _ = resp.Body.Close() }() // all that counts was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAlertsBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer of prometheus: %w", err)
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("prometheus refuses the console (HTTP %d): check --prometheus-token-file", resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("prometheus answers with HTTP %d: check --prometheus-url", resp.StatusCode)
	case len(body) > maxAlertsBytes:
		return nil, fmt.Errorf("prometheus has more than %d MiB of alerts", maxAlertsBytes>>20)
	}
	return decodeAlerts(body)
}

// decodeAlerts reads an answer of /api/v1/alerts.
func decodeAlerts(body []byte) ([]Alert, error) {
	var answer struct {
		Status string
		Data   struct {
			Alerts []struct {
				Labels, Annotations map[string]string
				State               string
				ActiveAt            time.Time
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status != "success" {
		return nil, errors.New("the answer is not that of a Prometheus: check --prometheus-url")
	}
	var out []Alert
	for _, got := range answer.Data.Alerts {
		name := got.Labels["alertname"]
		if got.State != "firing" || !strings.HasPrefix(name, alertPrefix) {
			continue
		}
		alert := Alert{
			Name: cut(name), Severity: cut(got.Labels["severity"]), Summary: cut(got.Annotations["summary"]), Description: cut(got.Annotations["description"]),
			Since: got.ActiveAt, Labels: map[string]string{},
		}
		for key, value := range got.Labels {
			if key != "alertname" && key != "severity" {
				alert.Labels[cut(key)] = cut(value)
			}
		}
		out = append(out, alert)
	}
	slices.SortStableFunc(out, func(a, b Alert) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), a.Since.Compare(b.Since), strings.Compare(a.Name, b.Name))
	})
	return out[:min(len(out), maxAlerts)], nil
}

func rank(severity string) int {
	switch severity {
	case "critical":
		return 0
	case "warning":
		return 1
	}
	return 2
}

// cut is as much of a text as is told.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxAlertText)], "")
}
