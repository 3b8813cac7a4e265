package event

import (
	"fmt"
	"strings"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/store"
)

// shownEntries are how many entries of a configuration an event names.
const shownEntries = 10

// FirstRead begins the problem of a service that only misses values at places that no console has read yet. It is no
// alarm: the read has an answer within the minute, which is either a value or a problem of its own.
const FirstRead = "it waits for a first read: "

// IsFirstRead tells the problem of a configuration that is no alarm.
func IsFirstRead(problem string) bool { return strings.HasPrefix(problem, FirstRead) }

// Alarms says whether an event has told of the problem of a configuration.
func Alarms(c store.Config) bool { return c.Problem != "" && !IsFirstRead(c.Problem) }

// Configured says what is new in how a service is configured: entries are the names of those that have other values.
func Configured(of store.Resource, before, after store.Config, entries []string, actor string, now time.Time) ([]store.Event, error) {
	s, _, err := service(of)
	if err != nil {
		return nil, err
	}
	var out []store.Event
	tell := func(e *consolev1.Event) {
		e.Service, e.Cluster, e.Project, e.Actor = of.Name, s.Spec.Cluster, s.Spec.Project, actor
		out = append(out, stored(e, now))
	}
	switch {
	case Alarms(after) && !Alarms(before):
		how := "It can't be configured, and keeps what it had: "
		if after.Revision == "" || after.Revision == store.HeldConfig {
			how = "It can't be configured: "
		}
		tell(&consolev1.Event{Type: ConfigFailing, Severity: failing, Message: how + after.Problem})
	case after.Problem == "" && Alarms(before):
		tell(&consolev1.Event{Type: ConfigRecovered, Severity: info, Message: "It can be configured again.", Duration: span(before.ProblemTime, now)})
	}
	if len(entries) > 0 {
		names := strings.Join(entries[:min(len(entries), shownEntries)], ", ")
		if more := len(entries) - shownEntries; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		tell(&consolev1.Event{Type: ConfigChanged, Severity: info, Count: int32(len(entries)), Message: "Its configuration is another one: " + names + "."})
	}
	return out, nil
}
