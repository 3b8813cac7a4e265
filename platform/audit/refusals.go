package audit

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/identity"
)

const (
	// ActionArtifactRefused is of a download that somebody may not have.
	ActionArtifactRefused = "artifact.refused"
	// refusalsPerMinute of one caller are recorded one by one, so that nobody drowns the trail.
	refusalsPerMinute = 60
	// maxRefused bounds the callers that are counted.
	maxRefused = 10_000
)

// Refusals records downloads that were refused, and logs those that it records. Of a caller that goes on and on some are recorded, and how many
// were not is told in the first event of a later minute.
type Refusals struct {
	Recorder *Recorder
	Log      *slog.Logger

	mu      sync.Mutex // guards what follows
	callers map[string]*refused
}

// refused counts those of one caller.
type refused struct {
	minute        int64
	count, untold int
}

// Artifact records that the caller of a request may not have an artifact.
func (f *Refusals) Artifact(r *http.Request, digest, reason string) {
	id, _ := identity.FromContext(r.Context())
	untold, tell := f.count(id.Subject(), time.Now())
	if !tell {
		return
	}
	if untold > 0 {
		reason = fmt.Sprintf("%s (%d more were refused before and are not recorded)", reason, untold)
	}
	f.Log.InfoContext(r.Context(), "refused an artifact that is not meant for the caller", "caller", id.Subject(), "digest", digest, "reason", reason)
	e := Event{
		Actor: Of(id), Action: ActionArtifactRefused, Resource: digest, Verb: r.Method, Code: http.StatusNotFound, Remote: r.RemoteAddr, Reason: reason,
	}
	if id.Kind == identity.KindAgent {
		e.Cluster = id.Name
	}
	if span := trace.SpanContextFromContext(r.Context()); span.HasTraceID() {
		e.TraceID = span.TraceID().String()
	}
	f.Recorder.Record(e)
}

// count says whether a refusal is told, and how many were not since the one before.
func (f *Refusals) count(caller string, now time.Time) (untold int, tell bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	minute := now.Unix() / 60
	c := f.callers[caller]
	if c == nil {
		if f.callers == nil || len(f.callers) >= maxRefused {
			f.callers = map[string]*refused{}
		}
		c = &refused{minute: minute}
		f.callers[caller] = c
	}
	if c.minute != minute {
		c.minute, c.count = minute, 0
	}
	if c.count++; c.count > refusalsPerMinute {
		c.untold++
		return 0, false
	}
	untold, c.untold = c.untold, 0
	return untold, true
}
