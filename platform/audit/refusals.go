package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/identity"
)

const (
	// ActionArtifactRefused is of a download that somebody may not have.
	ActionArtifactRefused = "artifact.refused"
	// ActionTokenRefused is of a request with a token that is forged, expired or revoked.
	ActionTokenRefused = "token.refused"
	// ActionLoginRefused is of a credential with which somebody could not log in.
	ActionLoginRefused = "login.refused"
	// refusalsPerMinute of one caller are recorded one by one, so that nobody drowns the trail.
	refusalsPerMinute = 60
	// strangersPerMinute are recorded of all whose tokens or credentials are refused: they may have many addresses.
	strangersPerMinute = 600
	// maxRefused bounds the callers that are counted.
	maxRefused = 10_000
)

// Refusals records downloads, tokens and logins that were refused, and logs those that it records. Of a caller that
// goes on and on some are recorded, and how many were not is told in the first event of a later minute.
type Refusals struct {
	Recorder *Recorder
	Log      *slog.Logger

	mu      sync.Mutex // guards what follows
	callers map[string]*refused
	all     refused // whom nobody knows
}

// refused counts those of one caller.
type refused struct {
	minute       int64
	told, untold int
}

// Artifact records that the caller of a request may not have an artifact.
func (f *Refusals) Artifact(r *http.Request, digest, reason string) {
	id, _ := identity.FromContext(r.Context())
	untold, tell := f.count(id.Subject(), time.Now())
	if !tell {
		return
	}
	reason = withUntold(reason, untold)
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

// Token records that the token of a request is forged, expired or revoked. The sender is not known: refusals are
// counted for the address.
func (f *Refusals) Token(r *http.Request, why error) {
	remote, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		remote = r.RemoteAddr
	}
	reason := identity.ErrInvalid // without what is wrapped around it, which may quote the token
	for _, known := range []error{identity.ErrExpired, identity.ErrRevoked, identity.ErrUnproved, identity.ErrUnbound} {
		if errors.Is(why, known) {
			reason = known
		}
	}
	f.stranger(Event{Action: ActionTokenRefused, Verb: r.Method, Code: http.StatusUnauthorized, Remote: remote, Reason: reason.Error()})
}

// Login records that a credential is wrong. The argument what is the kind of the credential, never its text.
func (f *Refusals) Login(ctx context.Context, remote, what string) {
	e := Event{Action: ActionLoginRefused, Code: http.StatusUnauthorized, Remote: remote, Reason: "the " + what + " is wrong, used or expired"}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		e.TraceID = span.TraceID().String()
	}
	f.stranger(e)
}

// stranger records what somebody tried whom nobody knows.
func (f *Refusals) stranger(e Event) {
	untold, tell := f.countStranger(e.Remote, time.Now())
	if !tell {
		return
	}
	e.Reason = withUntold(e.Reason, untold)
	f.Recorder.Record(e)
}

// countStranger counts a refusal for its address, and for all strangers.
func (f *Refusals) countStranger(remote string, now time.Time) (untold int, tell bool) {
	untold, tell = f.count("remote:"+remote, now)
	if !tell {
		return 0, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	more, tell := f.all.count(strangersPerMinute, now)
	if !tell {
		f.all.untold += untold
		return 0, false
	}
	return untold + more, true
}

func withUntold(reason string, untold int) string {
	if untold == 0 {
		return reason
	}
	return fmt.Sprintf("%s (%d more were refused before and are not recorded)", reason, untold)
}

// count says whether a refusal is told, and how many were not since the one before.
func (f *Refusals) count(caller string, now time.Time) (untold int, tell bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.callers[caller]
	if c == nil {
		if f.callers == nil || len(f.callers) >= maxRefused {
			f.callers = map[string]*refused{}
		}
		c = &refused{}
		f.callers[caller] = c
	}
	return c.count(refusalsPerMinute, now)
}

func (c *refused) count(most int, now time.Time) (untold int, tell bool) {
	if minute := now.Unix() / 60; c.minute != minute {
		c.minute, c.told = minute, 0
	}
	if c.told++; c.told > most {
		c.untold++
		return 0, false
	}
	untold, c.untold = c.untold, 0
	return untold, true
}
