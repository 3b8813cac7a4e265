// Package resolve gets answers to a plan's open wants: it asks in batches, brings what comes out into
// the node's store, and only then tells the plan, so that the first agent that is nudged finds the bytes
// here. A question or fetch that fails is tried again with full jitter. Neither a source that hangs nor content that
// does not come holds anything up for long: agents are told then, and wait for the bytes themselves.
package resolve

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/distributor/internal/plan"
)

const (
	// maxBatch is the number of wants per question. One question is about one source, so that a
	// source that is slow to build holds up nobody else's.
	maxBatch = 64
	// maxRunning bounds the questions at a time. A question that takes longer than slowTime counts as stuck: it makes
	// room for others, of which there may be maxAsked in all, and maxPerSource about one source.
	maxRunning   = 8
	maxPerSource = 2
	maxAsked     = 256
	slowTime     = 5 * time.Second
	// warmTime is how long a download may hold up its nudges; it goes on behind that, and those of its question that
	// have not begun are not waited for. As long as they come, all of a question are waited for, however busy the
	// machine is. coldTime is for how long downloads that fail are tried again first.
	warmTime = 10 * time.Second
	coldTime = 30 * time.Second
	// maxWarming bounds the downloads per question at a time.
	maxWarming = 4
	// Retries wait a random part of a time that doubles from first to last.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 30 * time.Second
	// closing is ample time for an answer to reach the plan.
	closing = 10 * time.Second
)

// Origin is the network behind this node.
type Origin interface {
	// Resolve answers every want; all are of one source.
	Resolve(ctx context.Context, wants []plan.Want) []plan.Answer
	// Warm makes the artifact of a want local.
	Warm(ctx context.Context, w plan.Want, d artifact.Digest) error
}

// Plan is what the resolver needs of a plan.
type Plan interface {
	Open() []plan.Want
	// Trace is the trace context of the commit that a want is of; it may be empty.
	Trace(w plan.Want) string
}

// Resolver is made by New; Run works.
type Resolver struct {
	origin Origin
	plan   Plan
	// answer takes an answer in; called from many goroutines.
	answer func(context.Context, plan.Answer)
	tracer trace.Tracer
	log    *slog.Logger
	kick   chan struct{} // capacity 1
}

// New returns a resolver that hands what it learns to answer.
func New(p Plan, origin Origin, answer func(context.Context, plan.Answer), tracer trace.Tracer, log *slog.Logger) *Resolver {
	return &Resolver{plan: p, origin: origin, answer: answer, tracer: tracer, log: log, kick: make(chan struct{}, 1)}
}

// Kick says that the plan may have new wants. Kick never blocks.
func (r *Resolver) Kick() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// try is what is known of a want while it is open.
type try struct {
	failures int
	due      time.Time
	running  bool
	cold     time.Time // since when its content can't be fetched; zero: not known
}

// batch is one question and its end.
type batch struct {
	wants  []plan.Want
	tired  map[plan.Want]bool // wants that are delivered even if their content can't be fetched
	failed map[plan.Want]bool
	cold   map[plan.Want]bool // of them: for want of content
	stuck  bool               // the batch took long
}

// asking is how many questions there are right now.
type asking struct {
	running, stuck int
	sources        map[string]int
}

// room is for how many more.
func (a *asking) room() int { return min(maxRunning-a.running, maxAsked-a.running-a.stuck) }

func (a *asking) begin(b batch) {
	a.running++
	a.sources[b.wants[0].SourceUID]++
}

func (a *asking) end(b batch) {
	if b.stuck {
		a.stuck--
	} else {
		a.running--
	}
	source := b.wants[0].SourceUID
	if a.sources[source]--; a.sources[source] == 0 {
		delete(a.sources, source)
	}
}

// Run works until ctx ends, and waits for what runs.
func (r *Resolver) Run(ctx context.Context) error {
	tries := map[plan.Want]*try{} // owned by this goroutine
	now := asking{sources: map[string]int{}}
	done, stuck := make(chan batch), make(chan struct{})
	var open sync.WaitGroup
	defer open.Wait()
	for {
		batches, wait := r.next(tries, &now)
		for _, b := range batches {
			open.Go(func() { r.run(ctx, b, stuck, done) })
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-r.kick:
		case <-timer.C:
		case <-stuck:
			now.running--
			now.stuck++
		case b := <-done:
			now.end(b)
			settle(tries, b)
		}
		timer.Stop()
	}
}

// run asks, and says so when that takes long.
func (r *Resolver) run(ctx context.Context, b batch, stuck chan<- struct{}, done chan<- batch) {
	told := make(chan struct{})
	slow := time.AfterFunc(slowTime, func() {
		defer close(told)
		select {
		case stuck <- struct{}{}:
		case <-ctx.Done():
		}
	})
	r.ask(ctx, &b)
	if b.stuck = !slow.Stop(); b.stuck {
		<-told
	}
	select {
	case done <- b:
	case <-ctx.Done():
	}
}

// next picks what is due, and says when something will be.
func (r *Resolver) next(tries map[plan.Want]*try, asked *asking) (batches []batch, wait time.Duration) {
	open := r.plan.Open()
	forget(tries, open)
	now, wait := time.Now(), time.Hour
	due := map[string][]plan.Want{}
	for _, w := range open {
		t := tries[w]
		if t == nil {
			t = &try{due: now}
			tries[w] = t
		}
		if t.running {
			continue
		}
		if d := t.due.Sub(now); d > 0 {
			wait = min(wait, d)
			continue
		}
		due[w.SourceUID] = append(due[w.SourceUID], w)
	}
	for source, wants := range due {
		for some := range slices.Chunk(wants, maxBatch) {
			if asked.room() <= 0 {
				return batches, wait // the end of a batch looks again
			}
			if asked.sources[source] == maxPerSource {
				break
			}
			b := batch{wants: some, tired: map[plan.Want]bool{}, failed: map[plan.Want]bool{}, cold: map[plan.Want]bool{}}
			for _, w := range some {
				t := tries[w]
				t.running = true
				b.tired[w] = !t.cold.IsZero() && now.Sub(t.cold) >= coldTime
			}
			asked.begin(b)
			batches = append(batches, b)
		}
	}
	return batches, wait
}

// forget drops what is not open any more; what runs settles itself.
func forget(tries map[plan.Want]*try, open []plan.Want) {
	if len(tries) == 0 {
		return
	}
	still := make(map[plan.Want]struct{}, len(open))
	for _, w := range open {
		still[w] = struct{}{}
	}
	for w, t := range tries {
		if _, ok := still[w]; !ok && !t.running {
			delete(tries, w)
		}
	}
}

func settle(tries map[plan.Want]*try, b batch) {
	for _, w := range b.wants {
		t := tries[w]
		t.running = false
		if !b.cold[w] {
			t.cold = time.Time{}
		} else if t.cold.IsZero() {
			t.cold = time.Now()
		}
		if b.failed[w] {
			t.due = time.Now().Add(retry.Pause(t.failures, firstRetry, lastRetry))
			t.failures++
			continue
		}
		// The plan closes it in a moment: don't ask the same again until then.
		t.due = time.Now().Add(closing)
	}
}

// ask asks one question to its end: each artifact is told as soon as it is here, or the time for that is over.
func (r *Resolver) ask(ctx context.Context, b *batch) {
	ctx, span := telemetry.Of(ctx, r.plan.Trace(b.wants[0]), r.tracer,
		"distributor.resolve", trace.WithAttributes(attribute.String("source", b.wants[0].Source)))
	defer span.End()
	answers := r.origin.Resolve(ctx, b.wants)
	var mu sync.Mutex    // guards what b holds
	var late atomic.Bool // a download took too long: what they come from may hang
	warming := errgroup.Group{}
	warming.SetLimit(maxWarming)
	for _, a := range answers {
		warming.Go(func() error {
			warmth, cancel := context.WithTimeout(ctx, warmTime)
			defer cancel()
			if late.Load() {
				cancel()
			}
			told, cold := r.warm(warmth, a, b.tired[a.Want])
			if errors.Is(warmth.Err(), context.DeadlineExceeded) {
				late.Store(true)
			}
			if ctx.Err() != nil {
				return nil // a failure because we stop says nothing
			}
			r.tell(ctx, told)
			if told.Failure != nil && told.Failure.Kind == plan.Unavailable {
				mu.Lock()
				defer mu.Unlock()
				b.failed[a.Want], b.cold[a.Want] = true, cold
			}
			return nil
		})
	}
	_ = warming.Wait() // its functions give no errors
}

// warm brings an answer's content here, and says what to tell: that it can't be had yet, or, where waiting
// has no end, the answer all the same. Agents that ask for the content start its download again.
func (r *Resolver) warm(ctx context.Context, a plan.Answer, tired bool) (told plan.Answer, cold bool) {
	if a.Failure != nil {
		return a, false
	}
	err := r.origin.Warm(ctx, a.Want, a.Artifact.Digest)
	switch {
	case err == nil:
		return a, false
	case tired, ctx.Err() != nil:
		r.log.Info("agents are told of content that is not here yet", "source", a.Want.Source, "digest", a.Artifact.Digest, "err", err)
		return a, false
	}
	return plan.Answer{Want: a.Want, Failure: &plan.Failure{Kind: plan.Unavailable, Text: "its content can't be fetched: " + err.Error()}}, true
}

func (r *Resolver) tell(ctx context.Context, a plan.Answer) {
	log := r.log.With("source", a.Want.Source, "revision", a.Want.Commit, "path", a.Want.Path)
	switch f := a.Failure; {
	case f == nil:
		log.Debug("resolved", "digest", a.Artifact.Digest)
	case f.Kind == plan.Unavailable:
		log.Info("can't resolve yet", "err", f.Text)
	default:
		log.Info("can't resolve", "err", f.Text)
	}
	r.answer(ctx, a)
}
