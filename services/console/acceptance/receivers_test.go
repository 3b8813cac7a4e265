package acceptance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/console/internal/event"
)

const plantedToken = "planted-token-of-a-receiver"

// standIn answers as the public documentation of a receiver says, keeps what it took, and refuses what its
// documentation does not allow.
type standIn struct {
	*httptest.Server
	mu   sync.Mutex
	took []string // Guarded by mu.
	bad  []string // Guarded by mu.
}

// newStandIn has take say what a request comes to, or what is wrong with it.
func newStandIn(t *testing.T, status int, answer string,
	take func(req *http.Request, body []byte) ([]string, error),
) *standIn {
	t.Helper()
	s := &standIn{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var took []string
		if err == nil {
			took, err = take(req, body)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.bad = append(s.bad, fmt.Sprintf("%s %s: %v: %s", req.Method, req.URL, err, body))
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.took = append(s.took, took...)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *standIn) got(t *testing.T) []string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bad) > 0 {
		t.Fatal(s.bad)
	}
	return slices.Clone(s.took)
}

// read decodes what only has fields of a documentation.
func read(req *http.Request, body []byte, path string, into any) error {
	if req.Method != http.MethodPost || req.URL.Path != path ||
		!strings.HasPrefix(req.Header.Get("Content-Type"), "application/json") {
		return fmt.Errorf("not POST %s with JSON", path)
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// newPagerDuty is the Events API v2: https://developer.pagerduty.com/docs/send-alert-event.
func newPagerDuty(t *testing.T) *standIn {
	return newStandIn(t, http.StatusAccepted, `{"status":"success","message":"Event processed","dedup_key":"x"}`,
		func(req *http.Request, body []byte) ([]string, error) {
			var in struct {
				RoutingKey string `json:"routing_key"`
				Action     string `json:"event_action"`
				Key        string `json:"dedup_key"`
				Client     string
				Payload    *struct {
					Summary, Source, Severity, Timestamp, Component, Group, Class string
					Details                                                       map[string]any `json:"custom_details"`
				}
			}
			if err := read(req, body, "/v2/enqueue", &in); err != nil {
				return nil, err
			}
			severities := []string{"critical", "error", "warning", "info"}
			switch p := in.Payload; {
			case in.RoutingKey != plantedToken:
				return nil, fmt.Errorf("routing_key %q", in.RoutingKey)
			case in.Key == "" || len(in.Key) > 255:
				return nil, fmt.Errorf("dedup_key %q", in.Key)
			case in.Action == "resolve":
				return []string{"resolve " + in.Key[strings.LastIndex(in.Key, "/Service")+1:]}, nil
			case in.Action != "trigger", p == nil, p.Summary == "", len(p.Summary) > 1024, p.Source == "",
				!slices.Contains(severities, p.Severity):
				return nil, fmt.Errorf("action %q, payload %+v", in.Action, p)
			case func() bool { _, err := time.Parse(time.RFC3339, p.Timestamp); return err != nil }():
				return nil, fmt.Errorf("timestamp %q", p.Timestamp)
			}
			if !strings.Contains(in.Key, "/Service") {
				return []string{"trigger " + in.Payload.Class}, nil
			}
			return []string{
				"trigger " + in.Key[strings.LastIndex(in.Key, "/Service")+1:] + " " + in.Payload.Severity + " " +
					in.Payload.Summary,
			}, nil
		})
}

// newAlertmanager is POST /api/v2/alerts of its OpenAPI document. The stand-in keeps the alerts that are open.
func newAlertmanager(t *testing.T) *standIn {
	return newStandIn(t, http.StatusOK, "", func(req *http.Request, body []byte) (took []string, err error) {
		var in []struct {
			Labels, Annotations map[string]string
			StartsAt, EndsAt    *time.Time
			GeneratorURL        string
		}
		if err := read(req, body, "/prefix/api/v2/alerts", &in); err != nil {
			return nil, err
		}
		if user, password, ok := req.BasicAuth(); !ok || user != "hub" || password != plantedToken {
			return nil, fmt.Errorf("login as %q", user)
		}
		for _, a := range in {
			if a.Labels["alertname"] == "" || a.StartsAt != nil && a.EndsAt.Before(*a.StartsAt) {
				return nil, fmt.Errorf("alert %+v", a)
			}
			verb := "open"
			if a.StartsAt == nil {
				verb = "end"
			} else if a.EndsAt.Sub(*a.StartsAt) < time.Hour {
				verb = "notice"
			}
			took = append(took, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", verb, a.Labels["alertname"],
				a.Labels["cluster"], a.Labels["service"], a.Annotations["summary"])))
		}
		return took, nil
	})
}

// newGrafana is POST /api/annotations: https://grafana.com/docs/grafana/latest/developers/http_api/annotations/.
func newGrafana(t *testing.T) *standIn {
	return newStandIn(t, http.StatusOK, `{"message":"Annotation added","id":1}`,
		func(req *http.Request, body []byte) ([]string, error) {
			var in struct {
				DashboardUID  string `json:"dashboardUID"`
				PanelID       int    `json:"panelId"`
				Time, TimeEnd int64
				Tags          []string
				Text          string
			}
			if err := read(req, body, "/api/annotations", &in); err != nil {
				return nil, err
			}
			if req.Header.Get("Authorization") != "Bearer "+plantedToken || in.Text == "" || in.Time < 1e12 ||
				in.DashboardUID != "fleet" {
				return nil, fmt.Errorf("annotation %+v", in)
			}
			return []string{strings.Join(in.Tags, ",") + " " + in.Text}, nil
		})
}

// newTeams is a webhook of a workflow of Teams: a message with an adaptive card of at most 28 KB, whose URL has the
// signature.
func newTeams(t *testing.T) *standIn {
	return newStandIn(t, http.StatusAccepted, "", func(req *http.Request, body []byte) ([]string, error) {
		var in struct {
			Type        string
			Attachments []struct {
				ContentType string
				Content     struct {
					Schema, Type, Version string
					Body                  []struct {
						Type    string
						Inlines []struct{ Type, Text string }
					}
				}
			}
		}
		body = []byte(strings.Replace(string(body), `"$schema"`, `"schema"`, 1))
		if err := read(req, body, "/workflows/1/triggers/manual/paths/invoke", &in); err != nil {
			return nil, err
		}
		if req.URL.Query().Get("sig") != plantedToken || len(body) > 28<<10 || in.Type != "message" ||
			len(in.Attachments) != 1 ||
			in.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" ||
			in.Attachments[0].Content.Type != "AdaptiveCard" {
			return nil, fmt.Errorf("card %+v of %d bytes", in, len(body))
		}
		var lines []string
		for _, p := range in.Attachments[0].Content.Body {
			if p.Type != "RichTextBlock" || len(p.Inlines) != 1 || p.Inlines[0].Type != "TextRun" {
				return nil, fmt.Errorf("paragraph %+v", p)
			}
			lines = append(lines, p.Inlines[0].Text)
		}
		return lines, nil
	})
}

// aboutService is an event about a service, now.
func aboutService(id, typ string, severity consolev1.Severity, message string) *consolev1.Event {
	return &consolev1.Event{
		Id: id, Time: timestamppb.Now(), Type: typ, Severity: severity, Cluster: "edge-1", Service: "web",
		Message: message,
	}
}

func TestReceiversOfAlertsAreToldTheEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		to   *standIn
		spec func(url string) *consolev1.SinkSpec
		want []string
	}{
		"PagerDuty": {newPagerDuty(t), func(url string) *consolev1.SinkSpec {
			return &consolev1.SinkSpec{
				To: &consolev1.SinkSpec_PagerDuty{
					PagerDuty: &consolev1.PagerDutySink{Url: url + "/v2/enqueue", Key: secret(plantedToken)},
				},
			}
		}, []string{
			"trigger ServiceUnhealthy/edge-1/web/// error web at edge-1 service.degraded: 1 of 3 objects is not healthy.",
			"trigger service.drift_repaired",
			"resolve ServiceUnhealthy/edge-1/web///",
		}},
		"Alertmanager": {newAlertmanager(t), func(url string) *consolev1.SinkSpec {
			return &consolev1.SinkSpec{
				To: &consolev1.SinkSpec_Alertmanager{
					Alertmanager: &consolev1.AlertmanagerSink{
						Url: url + "/prefix/", Username: "hub", Password: secret(plantedToken),
					},
				},
			}
		}, []string{
			"open FairleadServiceUnhealthy edge-1 web web at edge-1 service.degraded: 1 of 3 objects is not healthy.",
			"notice FairleadServiceDriftRepaired edge-1 web web at edge-1 service.drift_repaired: Something was put right.",
			"end FairleadServiceUnhealthy edge-1 web",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, "")
			admin := h.withSinks(t).admin(t)
			if err := admin.putSink(t, &consolev1.Sink{
				Metadata: meta("alerts"), Spec: test.spec(test.to.URL),
			}); err != nil {
				t.Fatal(err)
			}
			// Without severity, types and filter there are warnings and errors, and the ends of these.
			h.tell(t, aboutService("a", event.ServiceDegraded, consolev1.Severity_SEVERITY_ERROR,
				"1 of 3 objects is not healthy."),
				aboutService("b", event.ServiceApplied, consolev1.Severity_SEVERITY_INFO, "It is applied."),
				aboutService("c", event.ServiceDriftRepaired, consolev1.Severity_SEVERITY_WARNING,
					"Something was put right."),
				aboutService("d", event.ServiceHealthy, consolev1.Severity_SEVERITY_INFO, "All 3 objects are healthy."))
			await.True(t, "all came", func() bool { return len(test.to.got(t)) >= len(test.want) })
			got := test.to.got(t)
			begins := slices.IndexFunc(got, func(s string) bool { return strings.Contains(s, "Unhealthy") })
			ends := slices.Index(got, test.want[2])
			// The order of alerts is open, as several are sent at once: that of what is said of one is not.
			if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(test.want))) ||
				begins >= ends {
				t.Errorf("got %q, want %q", got, test.want)
			}
			holdsNoSecret(t, admin, "alerts")
		})
	}
}

func TestReceiversOfTextsGetThem(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		to   *standIn
		spec func(url string) *consolev1.SinkSpec
		want []string
	}{
		"Teams": {newTeams(t), func(url string) *consolev1.SinkSpec {
			return &consolev1.SinkSpec{
				To: &consolev1.SinkSpec_Teams{
					Teams: &consolev1.TeamsSink{
						Url: secret(url + "/workflows/1/triggers/manual/paths/invoke?api-version=1&sig=" +
							plantedToken),
					},
				},
			}
		}, []string{"ERROR service.degraded web at edge-1: [a link](https://example.com) *here*"}},
		"Grafana": {newGrafana(t), func(url string) *consolev1.SinkSpec {
			return &consolev1.SinkSpec{
				To: &consolev1.SinkSpec_Grafana{
					Grafana: &consolev1.GrafanaSink{Url: url, Token: secret(plantedToken), Dashboard: "fleet"},
				},
			}
		}, []string{
			"fairlead,service.degraded,severity:error,cluster:edge-1,service:web web at edge-1 service.degraded: [a link](https://example.com) *here*",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, "")
			admin := h.withSinks(t).admin(t)
			if err := admin.putSink(t, &consolev1.Sink{
				Metadata: meta("texts"), Spec: test.spec(test.to.URL),
			}); err != nil {
				t.Fatal(err)
			}
			h.tell(t, aboutService("a", event.ServiceDegraded, consolev1.Severity_SEVERITY_ERROR,
				"[a link](https://example.com) *here*"))
			await.True(t, "it came", func() bool { return len(test.to.got(t)) > 0 })
			if got := test.to.got(t); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			tested, err := admin.sinks.TestSink(t.Context(), &consolev1.TestSinkRequest{Name: "texts"})
			if err != nil || !tested.GetAccepted() {
				t.Errorf("tested: %v, %v", tested, err)
			}
			holdsNoSecret(t, admin, "texts")
		})
	}
}

// holdsNoSecret looks at what people see of a sink, and writes it again, which keeps the secret for its receiver alone.
func holdsNoSecret(t *testing.T, admin api, name string) {
	t.Helper()
	shown := admin.sink(t, name)
	if strings.Contains(shown.String(), plantedToken) {
		t.Errorf("shown: %s", shown)
	}
	if err := admin.putSink(t, &consolev1.Sink{Metadata: meta(name), Spec: shown.GetSpec()}); err != nil {
		t.Errorf("written again: %v", err)
	}
	tested, err := admin.sinks.TestSink(t.Context(), &consolev1.TestSinkRequest{Name: name})
	if err != nil || !tested.GetAccepted() || strings.Contains(tested.GetAnswer(), plantedToken) {
		t.Errorf("tested again: %v, %v", tested, err)
	}
}

func TestReceiversThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	for want, spec := range map[string]*consolev1.SinkSpec{
		"spec.teams.url: must be https://": {
			To: &consolev1.SinkSpec_Teams{Teams: &consolev1.TeamsSink{Url: secret("nonsense")}},
		},
		"spec.pagerDuty.url: must be https://": {
			To: &consolev1.SinkSpec_PagerDuty{PagerDuty: &consolev1.PagerDutySink{Url: "nonsense", Key: secret("k")}},
		},
		"spec.pagerDuty.key.secret: has no value": {
			To: &consolev1.SinkSpec_PagerDuty{PagerDuty: &consolev1.PagerDutySink{Key: secret("")}},
		},
		"spec.alertmanager.url: must have no query": {
			To: &consolev1.SinkSpec_Alertmanager{
				Alertmanager: &consolev1.AlertmanagerSink{Url: "https://a.example.com?x=y"},
			},
		},
		"alertmanager.password: goes with alertmanager.username": {
			To: &consolev1.SinkSpec_Alertmanager{
				Alertmanager: &consolev1.AlertmanagerSink{Url: "https://a.example.com", Username: "hub"},
			},
		},
		"spec.grafana.token.secret: has no value": {
			To: &consolev1.SinkSpec_Grafana{
				Grafana: &consolev1.GrafanaSink{Url: "https://g.example.com", Token: secret("")},
			},
		},
	} {
		if err := admin.putSink(t, &consolev1.Sink{Metadata: meta("wrong"), Spec: spec}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	// A person who may change where a sink sends to may not read what it sends with.
	grafana := &consolev1.Sink{
		Metadata: meta("moved"),
		Spec: &consolev1.SinkSpec{
			To: &consolev1.SinkSpec_Grafana{
				Grafana: &consolev1.GrafanaSink{Url: "https://g.example.com", Token: secret("t")},
			},
		},
	}
	if err := admin.putSink(t, grafana); err != nil {
		t.Fatal(err)
	}
	grafana.Spec.GetGrafana().Url, grafana.Spec.GetGrafana().Token = "https://elsewhere.example.com", secret("")
	if err := admin.putSink(t, grafana); err == nil ||
		!strings.Contains(err.Error(), "spec.grafana.token.secret: write it again") {
		t.Errorf("moved: %v", err)
	}
}
