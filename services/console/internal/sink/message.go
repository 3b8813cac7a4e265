package sink

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protojson"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/event"
)

const (
	// shownEvents are told one by one in a text; of the rest the count is.
	shownEvents = 20
	// shownText is as much of an event's message as a text has, in bytes.
	shownText = 1000
	// maxText bounds what a template makes.
	maxText = 64 << 10
)

// Message is what templates see: events that are sent together.
type Message struct {
	// Sink and Project are its names; Project may be empty.
	Sink    string
	Project string
	// Count is of all events of the message, Events are the first of them, and More is how many there are besides.
	Count  int
	Events []Event
	More   int
	// Severity is the worst of all.
	Severity string
}

// Event is an event for templates.
type Event struct {
	ID, Type, Severity, Message               string
	Project, Cluster, Service, Source, Sink   string
	GlobalService, Alert, Group               string
	Commit, Digest, Actor, TraceID, Time, For string
	Count                                     int32
}

// newMessage is told of events, the first of which stand in it. escape is done to every text.
func newMessage(of target, events []*consolev1.Event, escape func(string) string) Message {
	m := Message{Sink: escape(of.name), Project: escape(of.spec.Project), Count: len(events), More: max(len(events)-shownEvents, 0)}
	worst := consolev1.Severity_SEVERITY_UNSPECIFIED
	for _, e := range events {
		worst = max(worst, e.GetSeverity())
	}
	m.Severity = event.SeverityName(worst)
	for _, e := range events[:min(len(events), shownEvents)] {
		m.Events = append(m.Events, Event{
			ID: e.GetId(), Type: e.GetType(), Severity: event.SeverityName(e.GetSeverity()), Message: escape(cut(e.GetMessage(), shownText)),
			Project: escape(e.GetProject()), Cluster: escape(e.GetCluster()), Service: escape(e.GetService()),
			Source: escape(e.GetSource()), Sink: escape(e.GetSink()),
			GlobalService: escape(e.GetGlobalService()), Alert: escape(e.GetAlert()), Group: escape(e.GetGroup()),
			Commit: escape(e.GetCommit()), Digest: escape(e.GetDigest()), Actor: escape(e.GetActor()), TraceID: escape(e.GetTraceId()),
			Time: e.GetTime().AsTime().UTC().Format(time.RFC3339), For: duration(e), Count: e.GetCount(),
		})
	}
	return m
}

func duration(e *consolev1.Event) string {
	if e.GetDuration() == nil {
		return ""
	}
	return e.GetDuration().AsDuration().Round(time.Second).String()
}

func asIs(text string) string { return text }

// The texts if there is no template.
const (
	defaultText = `{{if gt .Count 1}}{{.Count}} events{{if .Project}} of project {{.Project}}{{end}}:
{{end}}{{range .Events}}{{.Severity}} {{.Type}}{{if .Service}} {{.Service}}{{end}}{{if .Cluster}} at {{.Cluster}}{{end}}{{if .Source}} {{.Source}}{{end}}{{if .Sink}} {{.Sink}}{{end}}{{if .GlobalService}} {{.GlobalService}}{{end}}{{if .Alert}} {{.Alert}}{{end}}{{if .Group}} in {{.Group}}{{end}}: {{.Message}}{{if .Commit}} ({{short .Commit}}){{end}}
{{end}}{{if .More}}and {{.More}} more: see fairlead events
{{end}}`
	defaultMail = `{{range .Events}}{{.Time}} {{.Severity}} {{.Type}}{{if .Project}}
  project: {{.Project}}{{end}}{{if .Cluster}}
  cluster: {{.Cluster}}{{end}}{{if .Service}}
  service: {{.Service}}{{end}}{{if .Source}}
  source:  {{.Source}}{{end}}{{if .Sink}}
  sink:    {{.Sink}}{{end}}{{if .GlobalService}}
  global:  {{.GlobalService}}{{end}}{{if .Alert}}
  alert:   {{.Alert}}{{end}}{{if .Group}}
  group:   {{.Group}}{{end}}{{if .Commit}}
  commit:  {{.Commit}}{{end}}{{if .Actor}}
  by:      {{.Actor}}{{end}}{{if .For}}
  took:    {{.For}}{{end}}
  {{.Message}}

{{end}}{{if .More}}and {{.More}} more: see fairlead events

{{end}}`
	defaultSubject = `[fairlead] {{if eq .Count 1}}{{range .Events}}{{.Severity}} {{.Type}}{{if .Service}} {{.Service}}{{end}}{{if .Cluster}} at {{.Cluster}}{{end}}{{if .Alert}} {{.Alert}}{{end}}{{if .Group}} in {{.Group}}{{end}}{{end}}{{else}}{{.Severity}}: {{.Count}} events{{if .Project}} of project {{.Project}}{{end}}{{end}}`
)

// body is what a webhook gets: all events in full, or what the template makes, and what type that has.
func (t target) body(events []*consolev1.Event) (text []byte, contentType string, err error) {
	const asJSON = "application/json"
	if t.spec.Template != "" {
		text, err := render("template", t.spec.Template, newMessage(t, events, asIs))
		if json.Valid([]byte(text)) {
			return []byte(text), asJSON, err
		}
		return []byte(text), "text/plain; charset=utf-8", err
	}
	out := struct {
		Sink   string            `json:"sink"`
		Count  int               `json:"count"`
		Events []json.RawMessage `json:"events"`
	}{Sink: t.name, Count: len(events)}
	for _, e := range events {
		one, err := protojson.Marshal(e)
		if err != nil {
			return nil, "", fmt.Errorf("encode event %s: %w", e.GetId(), err)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, one); err != nil { // protojson's spaces differ from build to build
			return nil, "", fmt.Errorf("encode event %s: %w", e.GetId(), err)
		}
		out.Events = append(out.Events, compact.Bytes())
	}
	text, err = json.Marshal(out)
	return text, asJSON, err
}

// forSlack makes a text that Slack shows as it is: no mention, link or entity comes of it.
func forSlack(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// oneLine makes what can stand in a header of a mail, and does nothing to a terminal or a database.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return r == ' ' || r == '\u2028' || r == '\u2029' || unicode.IsControl(r)
	}), " ")
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xc0 == 0x80 { // not within a character
		most--
	}
	return text[:most] + "…"
}
