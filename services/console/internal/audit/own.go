package audit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	trail "fairlead.dev/platform/audit"
	"fairlead.dev/services/console/internal/store/audittrail"
)

// Own takes in what the console itself saw and wrote nothing for: a recorder hands it over, as those of the other
// services do.
type Own struct{ Log *Log }

// RecordAuditEvents implements trail.Console.
func (o Own) RecordAuditEvents(ctx context.Context, req *consolev1.RecordAuditEventsRequest) (*consolev1.RecordAuditEventsResponse, error) {
	events := make([]audittrail.Event, len(req.GetEvents()))
	for i, e := range req.GetEvents() {
		e.Recorder = Console().Identity.Subject()
		events[i] = Stored(e)
	}
	if err := o.Log.Append(ctx, events); err != nil {
		return nil, err
	}
	return &consolev1.RecordAuditEventsResponse{}, nil
}

const (
	// tellAgain is when an access is an event again that was one: a gitcache reads a secret at each poll.
	tellAgain = 24 * time.Hour
	// maxAccesses bounds the memory of what was told.
	maxAccesses = 100_000
)

// Accesses tells who reads the values of which secret or configuration, in which revision and from where: the first
// time, and once in tellAgain.
type Accesses struct {
	Recorder *trail.Recorder

	mu   sync.Mutex // guards told
	told map[access]time.Time
}

type access struct {
	who, remote, secret string
	revision            int64
	config              string // revision of a configuration
}

// Secret tells of an access.
func (a *Accesses) Secret(who Who, name string, revision int64) {
	if !a.first(access{who: who.Identity.Subject(), remote: who.Remote, secret: name, revision: revision}, time.Now()) {
		return
	}
	a.Recorder.Record(trail.Event{
		Actor: trail.Of(who.Identity), Action: "secret.access", Resource: "secret", Name: name, Remote: who.Remote, TraceID: who.TraceID,
		Reason: fmt.Sprintf("revision %d, the first time in %.0f hours", revision, tellAgain.Hours()),
	})
}

// Refused tells of an access that was refused.
func (a *Accesses) Refused(who Who, name, why string) {
	if a.first(access{who: who.Identity.Subject(), remote: who.Remote, secret: name, revision: -1}, time.Now()) {
		a.Tell(who, Act{Action: "secret.refused", Resource: "secret", Name: name, Reason: why})
	}
}

// Read tells of what is read in parts: at each beginning, and at the first part that a reader asks for, wherever it is.
func (a *Accesses) Read(who Who, act Act, begins bool) {
	first := a.first(access{who: who.Identity.Subject(), remote: who.Remote, secret: act.Name, config: act.Action}, time.Now())
	if first || begins {
		a.Tell(who, act)
	}
}

// Tell tells of what is written nowhere else. Tell does not wait.
func (a *Accesses) Tell(who Who, act Act) {
	a.Recorder.Record(trail.Event{
		Actor: trail.Of(who.Identity), Action: act.Action, Resource: act.Resource, Name: act.Name, Cluster: act.Cluster,
		Reason: act.Reason, Remote: who.Remote, TraceID: who.TraceID,
	})
}

// ConfigRead is a configuration that was read.
type ConfigRead struct{ Service, Revision string }

// namedConfigs is how many services of an access are named.
const namedConfigs = 20

// Configs tells of configurations with secrets that were read at once: in one event, for a change may be one of
// thousands.
func (a *Accesses) Configs(who Who, read []ConfigRead) {
	var names []string
	for _, r := range read {
		if a.first(access{who: who.Identity.Subject(), remote: who.Remote, secret: r.Service, config: r.Revision}, time.Now()) {
			names = append(names, r.Service)
		}
	}
	if len(names) == 0 {
		return
	}
	e := trail.Event{Actor: trail.Of(who.Identity), Action: "config.access", Resource: "service", Remote: who.Remote, TraceID: who.TraceID}
	if len(names) == 1 {
		e.Name = names[0]
	}
	e.Reason = "secret values of the configuration of " + strings.Join(names[:min(len(names), namedConfigs)], ", ")
	if more := len(names) - namedConfigs; more > 0 {
		e.Reason += fmt.Sprintf(" and %d more", more)
	}
	a.Recorder.Record(e)
}

func (a *Accesses) first(one access, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, ok := a.told[one]; ok && now.Sub(at) < tellAgain {
		return false
	}
	if a.told == nil || len(a.told) >= maxAccesses {
		a.told = map[access]time.Time{}
	}
	a.told[one] = now
	return true
}
