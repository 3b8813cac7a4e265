package audit

import (
	"context"
	"fmt"
	"sync"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	trail "fairlead.dev/platform/audit"
	"fairlead.dev/services/console/internal/store"
)

// Own takes in what the console itself saw and wrote nothing for: a recorder hands it over, as those of the other services do.
type Own struct{ Log *Log }

// RecordAuditEvents implements trail.Console.
func (o Own) RecordAuditEvents(ctx context.Context, req *consolev1.RecordAuditEventsRequest) (*consolev1.RecordAuditEventsResponse, error) {
	events := make([]store.AuditEvent, len(req.GetEvents()))
	for i, e := range req.GetEvents() {
		e.Recorder = Console().Identity.Subject()
		var err error
		if events[i], err = Stored(e); err != nil {
			return nil, fmt.Errorf("encode audit event: %w", err)
		}
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

// Accesses tells who reads the values of which secret, in which revision and from where: the first time, and once in tellAgain.
type Accesses struct {
	Recorder *trail.Recorder

	mu   sync.Mutex // guards told
	told map[access]time.Time
}

type access struct {
	who, remote, secret string
	revision            int64
}

// Secret tells of an access.
func (a *Accesses) Secret(who Who, name string, revision int64) {
	if !a.first(access{who.Identity.Subject(), who.Remote, name, revision}, time.Now()) {
		return
	}
	a.Recorder.Record(trail.Event{
		Actor: trail.Of(who.Identity), Action: "secret.access", Resource: "secret", Name: name, Remote: who.Remote, TraceID: who.TraceID,
		Reason: fmt.Sprintf("revision %d, the first time in %.0f hours", revision, tellAgain.Hours()),
	})
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
