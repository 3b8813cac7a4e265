package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/resource"
)

const (
	// teamsText is what a card of Teams may have, whose whole is 28 KB, and teamsLines how many paragraphs.
	teamsText, teamsLines = 16_000, 100
	// summaryText is what PagerDuty takes as summary, and subjectText as the key of an alert.
	summaryText, subjectText = 1024, 255
	pagerDutyURL             = "https://events.pagerduty.com/v2/enqueue"
	// pageLanes is how many requests to PagerDuty are under way at once.
	pageLanes       = 8
	alertsPath      = "/api/v2/alerts"
	annotationsPath = "/api/annotations"
	// alertFor is how long an alert lasts whose end nobody tells, and noticeFor one that has no end.
	alertFor, noticeFor = 24 * time.Hour, 5 * time.Minute
	// oneText is what is said of one event if there is no template.
	oneText = `{{range .Events}}{{if .Service}}{{.Service}} {{end}}{{if .Cluster}}at {{.Cluster}} {{end}}{{if .Source}}{{.Source}} {{end}}{{if .Sink}}{{.Sink}} {{end}}{{if .GlobalService}}{{.GlobalService}} {{end}}{{if .Alert}}{{.Alert}} {{end}}{{if .Group}}in {{.Group}} {{end}}{{.Type}}: {{.Message}}{{if .Commit}} ({{short .Commit}}){{end}}{{end}}`
)

// asJSON is the header of what is sent.
func asJSON() http.Header { return http.Header{"Content-Type": {"application/json"}} }

// text is what the template makes of events, or the one that stands for it.
func (t target) text(events []*consolev1.Event, otherwise string) (string, error) {
	from := t.spec.Template
	if from == "" {
		from = otherwise
	}
	said, err := render("template", from, newMessage(t, events, asIs))
	if err != nil {
		return "", failed("spec.template: %s", err)
	}
	return strings.TrimSpace(said), nil
}

// postJSON sends a body as JSON.
func (s *sender) postJSON(ctx context.Context, to, ca string, header http.Header, body any) (string, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("encode message: %w", err)
	}
	return s.post(ctx, to, ca, header, text)
}

// under is a path behind the URL of a server.
func under(base, path string) (string, error) {
	u, err := checkURL(base)
	if err != nil {
		return "", err
	}
	if u.RawQuery != "" {
		return "", errors.New("must have no query")
	}
	return strings.TrimSuffix(base, "/") + path, nil
}

// teams posts an adaptive card. Its paragraphs are runs of text, in which no character means anything: a message of an
// event can't become a link.
func (s *sender) teams(ctx context.Context, t target, events []*consolev1.Event) (string, error) {
	said, err := t.text(events, defaultText)
	if err != nil {
		return "", err
	}
	lines := strings.SplitN(cut(said, teamsText), "\n", teamsLines)
	paragraphs := make([]any, 0, len(lines))
	for _, line := range lines {
		paragraphs = append(paragraphs, map[string]any{"type": "RichTextBlock", "inlines": []any{map[string]any{"type": "TextRun", "text": line}}})
	}
	return s.postJSON(ctx, t.credentials[resource.SinkURL], t.spec.Teams.CA, asJSON(), map[string]any{
		"type": "message",
		"attachments": []any{map[string]any{
			"contentType": "application/vnd.microsoft.card.adaptive",
			"content":     map[string]any{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.2", "body": paragraphs},
		}},
	})
}

// subjects are what an event is about, each by its names: itself, or its services.
func subjects(e *consolev1.Event) []map[string]string {
	about := func(cluster, service string) map[string]string {
		out := map[string]string{}
		global := e.GetGlobalService()
		if service != "" { // only some events of a service name it, and the key of an alert is the same in all
			global = ""
		}
		for name, value := range map[string]string{
			"project": e.GetProject(), "cluster": cluster, "service": service, "source": e.GetSource(), "sink": e.GetSink(),
			"globalservice": global, "alert": e.GetAlert(), "group": e.GetGroup(),
		} {
			if value != "" {
				out[name] = value
			}
		}
		return out
	}
	if len(e.GetMembers()) == 0 {
		return []map[string]string{about(e.GetCluster(), e.GetService())}
	}
	var list []map[string]string
	for _, m := range e.GetMembers() {
		list = append(list, about(m.GetCluster(), m.GetService()))
	}
	return list
}

// alert is what a receiver keeps open.
type alert struct {
	name    string // Of the trouble.
	subject map[string]string
	ends    bool
}

// alerts are what an event begins, or ends.
func alerts(e *consolev1.Event) (list []alert) {
	if ended := event.Ended(e.GetType()); len(ended) > 0 {
		seen := map[string]bool{}
		for _, typ := range ended {
			name := event.Trouble(typ)
			if seen[name] {
				continue
			}
			seen[name] = true
			for _, subject := range subjects(e) {
				list = append(list, alert{name, subject, true})
			}
		}
		return list
	}
	for _, subject := range subjects(e) {
		list = append(list, alert{name: troubleOf(e.GetType()), subject: subject})
	}
	return list
}

// troubleOf is the name of an event's alert: service.drift_repaired is ServiceDriftRepaired.
func troubleOf(typ string) string {
	if name := event.Trouble(typ); name != "" {
		return name
	}
	var b strings.Builder
	for _, word := range strings.FieldsFunc(typ, func(r rune) bool { return r == '.' || r == '_' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// key is the same for what begins and for what ends.
func (a alert) key(t target) string {
	parts := []string{"fairlead", t.uid, a.name}
	for _, name := range []string{"cluster", "service", "source", "sink", "globalservice"} {
		parts = append(parts, url.PathEscape(a.subject[name]))
	}
	if name := a.subject["alert"]; name != "" { // the keys of all others stay what they were
		parts = append(parts, url.PathEscape(name), url.PathEscape(a.subject["group"]))
	}
	return strings.Join(parts, "/")
}

func (t target) pagerDutyURL() string {
	if to := t.spec.PagerDuty.URL; to != "" {
		return to
	}
	return pagerDutyURL
}

// pageRequest is what PagerDuty gets for an alert, on behalf of the event at a place of a message.
type pageRequest struct {
	place int
	key   string
	body  map[string]any
}

// pagerDuty triggers and resolves alerts, by a request each. Several are under way at once, as each takes a connection
// of its own; those of an alert are sent one after another, because its end must not come before it begins.
func (s *sender) pagerDuty(ctx context.Context, t target, events []*consolev1.Event) (answer string, err error) {
	var requests []pageRequest
	for i, e := range events {
		summary, err := t.text([]*consolev1.Event{e}, oneText)
		if err != nil {
			return "", err
		}
		for _, a := range alerts(e) {
			requests = append(requests, t.page(i, e, a, summary))
		}
		if e.GetType() == event.Test { // a test should wake nobody for long
			requests = append(requests, t.page(i, e, alert{name: troubleOf(event.Test), subject: subjects(e)[0], ends: true}, summary))
		}
	}
	return s.pages(ctx, t, requests)
}

// pages sends requests to PagerDuty. Its failure says how many events were taken before the first one that was not.
func (s *sender) pages(ctx context.Context, t target, requests []pageRequest) (answer string, err error) {
	byKey := map[string][]int{}
	var keys []string // in the order of their first requests
	for i, r := range requests {
		if byKey[r.key] == nil {
			keys = append(keys, r.key)
		}
		byKey[r.key] = append(byKey[r.key], i)
	}
	var (
		lanes   errgroup.Group
		mu      sync.Mutex
		end     = len(requests) // the first that failed; guarded by mu
		problem error           // of that one; guarded by mu
	)
	lanes.SetLimit(pageLanes)
	// Behind a failure nothing begins any more: a receiver that limits requests is asked no further.
	ended := func(i int) bool {
		mu.Lock()
		defer mu.Unlock()
		return i > end
	}
	for _, key := range keys {
		lanes.Go(func() error {
			for _, i := range byKey[key] {
				if ended(i) {
					return nil
				}
				said, err := s.postJSON(ctx, t.pagerDutyURL(), t.spec.PagerDuty.CA, asJSON(), requests[i].body)
				mu.Lock()
				if err == nil {
					answer = said
				} else if i < end {
					end, problem = i, err
				}
				mu.Unlock()
			}
			return nil
		})
	}
	_ = lanes.Wait() // its functions return no errors
	if problem == nil {
		return answer, nil
	}
	f := asFailure(problem)
	f.sent = requests[end].place // all before it were tried, and taken
	return "", f
}

// page is the request for an alert of an event.
func (t target) page(place int, e *consolev1.Event, a alert, summary string) pageRequest {
	key := a.key(t)
	if event.Trouble(e.GetType()) == "" && !a.ends && e.GetType() != event.Test {
		key = "fairlead/" + t.uid + "/" + e.GetId() // the event has no end: each is an alert of its own
	}
	if len(key) > subjectText {
		key = key[:subjectText]
	}
	body := map[string]any{"routing_key": t.credentials[resource.SinkKey], "event_action": "resolve", "dedup_key": key}
	if !a.ends {
		from := "fairlead"
		if cluster := a.subject["cluster"]; cluster != "" {
			from = cluster
		}
		body["event_action"], body["client"] = "trigger", "Fairlead"
		body["payload"] = map[string]any{
			"summary": cut(summary, summaryText-len("…")), "source": from, "severity": pagerSeverity(e.GetSeverity()),
			"timestamp": e.GetTime().AsTime().UTC().Format(time.RFC3339Nano), "component": a.subject["service"],
			"group": a.subject["project"], "class": e.GetType(),
			"custom_details": map[string]any{"message": e.GetMessage(), "commit": e.GetCommit(), "source": e.GetSource(), "actor": e.GetActor(), "event": e.GetId()},
		}
	}
	return pageRequest{place, key, body}
}

// pagerSeverity is one of those that PagerDuty knows.
func pagerSeverity(s consolev1.Severity) string { return strings.ToLower(event.SeverityName(s)) }

// alertmanager hands alerts over. Their labels are those of the trouble, so that what ends it finds it.
func (s *sender) alertmanager(ctx context.Context, t target, events []*consolev1.Event) (string, error) {
	to, err := under(t.spec.Alertmanager.URL, alertsPath)
	if err != nil {
		return "", failed("spec.alertmanager.url %s", err)
	}
	type handed struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations,omitempty"`
		StartsAt    *time.Time        `json:"startsAt,omitempty"`
		EndsAt      time.Time         `json:"endsAt"`
	}
	var list []handed
	for _, e := range events {
		summary, err := t.text([]*consolev1.Event{e}, oneText)
		if err != nil {
			return "", err
		}
		at := e.GetTime().AsTime().UTC()
		for _, a := range alerts(e) {
			labels := a.subject
			labels["alertname"], labels["fairlead_sink"] = "Fairlead"+a.name, t.name
			is := handed{Labels: labels, EndsAt: at}
			if !a.ends {
				is.StartsAt, is.EndsAt = &at, at.Add(noticeFor)
				if event.Trouble(e.GetType()) != "" {
					is.EndsAt = at.Add(alertFor)
				}
				is.Annotations = map[string]string{"summary": summary, "type": e.GetType(), "severity": pagerSeverity(e.GetSeverity())}
			}
			list = append(list, is)
		}
	}
	header := asJSON()
	if user := t.spec.Alertmanager.Username; user != "" {
		header.Set("Authorization", "Basic "+inBase64(user+":"+t.credentials[resource.SinkPassword]))
	}
	return s.postJSON(ctx, to, t.spec.Alertmanager.CA, header, list)
}

// grafana writes annotations, by a request each.
func (s *sender) grafana(ctx context.Context, t target, events []*consolev1.Event) (answer string, err error) {
	to, err := under(t.spec.Grafana.URL, annotationsPath)
	if err != nil {
		return "", failed("spec.grafana.url %s", err)
	}
	header := asJSON()
	header.Set("Authorization", "Bearer "+t.credentials[resource.SinkToken])
	for _, e := range events {
		said, err := t.text([]*consolev1.Event{e}, oneText)
		if err != nil {
			return "", err
		}
		tags := []string{"fairlead", e.GetType(), "severity:" + pagerSeverity(e.GetSeverity())}
		for _, tag := range []struct{ name, value string }{
			{"project", e.GetProject()}, {"cluster", e.GetCluster()}, {"service", e.GetService()}, {"source", e.GetSource()}, {"commit", e.GetCommit()},
		} {
			if tag.value != "" {
				tags = append(tags, tag.name+":"+tag.value)
			}
		}
		body := map[string]any{"time": e.GetTime().AsTime().UnixMilli(), "tags": tags, "text": said}
		if uid := t.spec.Grafana.Dashboard; uid != "" {
			body["dashboardUID"] = uid
		}
		if answer, err = s.postJSON(ctx, to, t.spec.Grafana.CA, header, body); err != nil {
			return "", err
		}
	}
	return answer, nil
}
