package status

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/distributor/internal/plan"
)

const (
	// hubPause is between two batches: a commit that touches many services is told in few calls.
	hubPause = 100 * time.Millisecond
	// maxTruths bounds one call (the console's own limit), and leastTruths what is left of it when calls run into their
	// deadlines: what is told in time is told once.
	maxTruths, leastTruths = 1000, 50
)

// TruthReporter tells the console what is delivered per service, and why something is not, and per ref from which
// commit. Safe for concurrent use.
type TruthReporter struct {
	console Console
	truth   func(service string) (plan.Truth, bool)
	log     *slog.Logger
	signal  chan struct{} // capacity 1

	// The next two fields belong to Run's goroutine: how many truths go into the next call, and services that were due
	// at one time, in the order of their uids. Services that were created together, as those of a cluster are, are told
	// together then: the console finds them on few pages of its database, however many wait.
	piece int
	line  []string

	mu    sync.Mutex           // guards what follows
	due   map[string]time.Time // services to tell of, and from when
	lines map[line]plan.Line   // to tell of when no service is due
}

// line is a ref of a source.
type line struct{ source, ref string }

// NewTruthReporter returns a TruthReporter that asks truth for what to tell; Run works.
func NewTruthReporter(c Console, truth func(service string) (plan.Truth, bool), log *slog.Logger) *TruthReporter {
	return &TruthReporter{console: c, truth: truth, log: log, signal: make(chan struct{}, 1), piece: maxTruths, due: map[string]time.Time{}, lines: map[line]plan.Line{}}
}

// Changed says that there is something to tell of these services, and then of these lines.
func (h *TruthReporter) Changed(services map[string]struct{}, lines []plan.Line) {
	if len(services)+len(lines) == 0 {
		return
	}
	h.mu.Lock()
	for s := range services {
		h.due[s] = time.Time{}
	}
	for _, l := range lines {
		h.lines[line{l.SourceUID, l.Ref}] = l
	}
	h.mu.Unlock()
	h.wake()
}

func (h *TruthReporter) wake() {
	select {
	case h.signal <- struct{}{}:
	default:
	}
}

// Run works until ctx ends.
func (h *TruthReporter) Run(ctx context.Context) error {
	failures := 0
	for {
		wait, err := h.flush(ctx)
		if err != nil {
			h.log.Info("tell the console what is delivered", "err", err)
			if !retry.Sleep(ctx, retry.Pause(failures, firstBackoff, lastBackoff)) {
				return nil
			}
			failures++
			continue
		}
		failures = 0
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-h.signal:
		}
		timer.Stop()
		if !retry.Sleep(ctx, hubPause) {
			return nil
		}
	}
}

// flush tells all that is due, and says how long nothing will be.
func (h *TruthReporter) flush(ctx context.Context) (time.Duration, error) {
	for {
		if len(h.line) == 0 {
			h.line = h.gather(time.Now())
		}
		names, lines, wait := h.take(time.Now())
		if len(names)+len(lines) == 0 {
			return wait, nil
		}
		begin := time.Now()
		err := h.tell(ctx, names, lines)
		h.piece = piece{leastTruths, maxTruths, truthsTime}.next(h.piece, len(names) >= h.piece, time.Since(begin), err)
		if err != nil {
			h.putBack(names, lines)
			return 0, err
		}
	}
}

// gather takes all services out that are due, in the order of their uids.
func (h *TruthReporter) gather(now time.Time) []string {
	h.mu.Lock()
	var names []string
	for name, from := range h.due {
		if !from.After(now) {
			names = append(names, name)
			delete(h.due, name)
		}
	}
	if len(h.due) == 0 {
		h.due = map[string]time.Time{} // a map that has held many stays large
	}
	h.mu.Unlock()
	type place struct{ uid, name string }
	places := make([]place, len(names))
	for i, name := range names {
		places[i].name = name
		if t, ok := h.truth(name); ok {
			places[i].uid = t.UID
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.uid, b.uid), cmp.Compare(a.name, b.name)) })
	for i, p := range places {
		names[i] = p.name
	}
	return names
}

// take takes the next services out, or lines if none is due: what a line says of services must be known before.
func (h *TruthReporter) take(now time.Time) (names []string, lines []plan.Line, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.line) > 0 {
		names, h.line = h.line[:min(h.piece, len(h.line))], h.line[min(h.piece, len(h.line)):]
		for _, name := range names {
			if from, again := h.due[name]; again && !from.After(now) {
				delete(h.due, name) // the present truth is told
			}
		}
		return names, nil, 0
	}
	wait = time.Hour
	for _, from := range h.due {
		wait = min(wait, max(from.Sub(now), 0))
	}
	if wait == 0 { // the service came a moment ago, and is told first
		return nil, nil, wait
	}
	for key, l := range h.lines {
		if len(lines) < maxTruths {
			lines = append(lines, l)
			delete(h.lines, key)
		}
	}
	return nil, lines, wait
}

func (h *TruthReporter) putBack(names []string, lines []plan.Line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range names {
		h.due[name] = time.Time{}
	}
	for _, l := range lines {
		if _, newer := h.lines[line{l.SourceUID, l.Ref}]; !newer {
			h.lines[line{l.SourceUID, l.Ref}] = l
		}
	}
}

// later tells of a service again at some time, if nothing is due before.
func (h *TruthReporter) later(name string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.due[name]; !ok {
		h.due[name] = at
	}
}

func (h *TruthReporter) tell(ctx context.Context, names []string, lines []plan.Line) error {
	req, now := h.request(names, time.Now()), timestamppb.Now()
	for _, l := range lines {
		req.Refs = append(req.Refs, &consolev1.RefHub{SourceUid: l.SourceUID, Ref: l.Ref, Revision: Revision(l.Revision), ResolveTime: now})
	}
	if len(req.GetServices())+len(req.GetRefs()) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := h.console.RecordHub(ctx, req)
	if connect.CodeOf(err) == connect.CodeInvalidArgument {
		// Saying it again would not help.
		h.log.ErrorContext(ctx, "the console refuses what is delivered, and shows what it knew before: bring both to one version",
			"services", len(req.GetServices()), "refs", len(req.GetRefs()), "err", err)
		return nil
	}
	return err
}

func (h *TruthReporter) request(names []string, now time.Time) *consolev1.RecordHubRequest {
	req := &consolev1.RecordHubRequest{}
	for _, name := range names {
		t, ok := h.truth(name)
		if !ok {
			continue // gone, and its truth with it
		}
		if t.Problem.Text != "" && t.Problem.From.After(now) {
			h.later(name, t.Problem.From) // the problem may pass by itself
			t.Problem = plan.Problem{}
		}
		req.Services = append(req.Services, serviceHub(name, t, now))
	}
	return req
}

func serviceHub(name string, t plan.Truth, now time.Time) *consolev1.ServiceHub {
	hub := &consolev1.HubTruth{ResolveTime: timestamppb.New(now)}
	if d := t.Delivery; d != nil {
		hub.Digest, hub.ContentDigest = d.Digest, d.Content
		if !t.Follows {
			hub.Revision = Revision(d.Revision)
		}
		hub.Artifact = Artifact(d.Artifact)
	}
	if t.Problem.Text != "" {
		hub.Problem = &consolev1.Problem{Message: t.Problem.Text, Since: timestamppb.New(t.Problem.From)}
	}
	return &consolev1.ServiceHub{Service: name, Uid: t.UID, SourceUid: t.SourceUID, Ref: t.Ref, Hub: hub, ServiceRevision: t.Revision}
}

// Revision is a revision on the wire.
func Revision(r plan.Revision) *artifactv1.Revision {
	out := &artifactv1.Revision{Commit: r.Commit, Subject: r.Subject, Author: r.Author, Traceparent: r.Traceparent}
	if !r.Time.IsZero() {
		out.CommitTime = timestamppb.New(r.Time)
	}
	return out
}

// Artifact is an artifact on the wire.
func Artifact(a plan.Artifact) *artifactv1.Artifact {
	return &artifactv1.Artifact{Digest: string(a.Digest), Size: a.Size, Files: a.Files}
}
