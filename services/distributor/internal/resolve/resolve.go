// Package resolve gets answers to a plan's open wants: it asks in batches, brings what comes out into
// the node's store, and only then tells the plan, so that the first agent that is nudged finds the bytes
// here. What fails is tried again with full jitter.
package resolve

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/distributor/internal/plan"
)

const (
	// maxBatch is the number of wants per question. One question is about one source, so that a
	// source that is slow to build holds up nobody else's.
	maxBatch = 64
	// maxRunning bounds the questions at a time.
	maxRunning = 8
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
type Plan interface{ Open() []plan.Want }

// Resolver is made by New; Run works.
type Resolver struct {
	origin Origin
	plan   Plan
	// answer takes an answer in; called from many goroutines.
	answer func(context.Context, plan.Answer)
	log    *slog.Logger
	kick   chan struct{} // capacity 1
}

// New returns a resolver that hands what it learns to answer.
func New(p Plan, origin Origin, answer func(context.Context, plan.Answer), log *slog.Logger) *Resolver {
	return &Resolver{plan: p, origin: origin, answer: answer, log: log, kick: make(chan struct{}, 1)}
}

// Kick says that the plan may have new wants. It never blocks.
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
}

// batch is one question and its end.
type batch struct {
	wants  []plan.Want
	failed map[plan.Want]bool
}

// Run works until ctx ends, and waits for what runs.
func (r *Resolver) Run(ctx context.Context) error {
	tries := map[plan.Want]*try{} // owned by this goroutine
	done := make(chan batch)
	running := 0
	var asking sync.WaitGroup
	defer asking.Wait()
	for {
		batches, wait := r.next(tries, maxRunning-running)
		for _, wants := range batches {
			running++
			asking.Go(func() {
				b := r.ask(ctx, wants)
				select {
				case done <- b:
				case <-ctx.Done():
				}
			})
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-r.kick:
		case <-timer.C:
		case b := <-done:
			running--
			settle(tries, b)
		}
		timer.Stop()
	}
}

// next picks what is due, and says when something will be.
func (r *Resolver) next(tries map[plan.Want]*try, room int) (batches [][]plan.Want, wait time.Duration) {
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
	for _, wants := range due {
		for some := range slices.Chunk(wants, maxBatch) {
			if len(batches) == room {
				return batches, wait // the end of a batch looks again
			}
			for _, w := range some {
				tries[w].running = true
			}
			batches = append(batches, some)
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
		if b.failed[w] {
			t.due = time.Now().Add(backoff(t.failures))
			t.failures++
			continue
		}
		// The plan closes it in a moment: don't ask the same again until then.
		t.due = time.Now().Add(closing)
	}
}

func backoff(failures int) time.Duration {
	limit := lastRetry
	if failures < 16 {
		limit = min(limit, firstRetry<<failures)
	}
	return rand.N(limit) + 1 //nolint:gosec // jitter is no secret
}

// ask asks one question to its end: each artifact is told as soon as it is here.
func (r *Resolver) ask(ctx context.Context, wants []plan.Want) batch {
	b := batch{wants: wants, failed: map[plan.Want]bool{}}
	var mu sync.Mutex // guards b.failed
	warming := errgroup.Group{}
	warming.SetLimit(maxWarming)
	for _, a := range r.origin.Resolve(ctx, wants) {
		warming.Go(func() error {
			if a.Failure == nil {
				if err := r.origin.Warm(ctx, a.Want, a.Artifact.Digest); err != nil {
					a = plan.Answer{Want: a.Want, Failure: &plan.Failure{Kind: plan.Unavailable, Text: "its content can't be fetched: " + err.Error()}}
				}
			}
			if ctx.Err() != nil {
				return nil // what failed because we stop says nothing
			}
			r.tell(ctx, a)
			if a.Failure != nil && a.Failure.Kind == plan.Unavailable {
				mu.Lock()
				defer mu.Unlock()
				b.failed[a.Want] = true
			}
			return nil
		})
	}
	_ = warming.Wait() // its functions give no errors
	return b
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
