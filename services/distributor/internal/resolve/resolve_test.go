package resolve_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"fairlead.dev/platform/artifact"
	"fairlead.dev/services/distributor/internal/plan"
	"fairlead.dev/services/distributor/internal/resolve"
)

// network plays plan and origin: open wants, and answers as the test says.
type network struct {
	mu      sync.Mutex // guards everything
	open    map[plan.Want]bool
	asked   [][]plan.Want
	answer  func(plan.Want) plan.Answer
	warm    func(context.Context, plan.Want) error
	slow    map[string]time.Duration // by source
	running int
	most    int
	got     []plan.Answer
	times   []time.Time
}

func (n *network) Trace(plan.Want) string { return "" }

func (n *network) Open() []plan.Want {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []plan.Want
	for w := range n.open {
		out = append(out, w)
	}
	return out
}

func (n *network) Resolve(ctx context.Context, wants []plan.Want) []plan.Answer {
	n.mu.Lock()
	n.asked = append(n.asked, wants)
	n.times = append(n.times, time.Now())
	n.running++
	n.most = max(n.most, n.running)
	wait := n.slow[wants[0].SourceUID]
	n.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running--
	var out []plan.Answer
	for _, w := range wants {
		out = append(out, n.answer(w))
	}
	return out
}

func (n *network) Warm(ctx context.Context, w plan.Want, _ artifact.Digest) error {
	if n.warm == nil {
		return nil
	}
	return n.warm(ctx, w)
}

func (n *network) learn(_ context.Context, a plan.Answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, a)
	if a.Failure == nil || a.Failure.Kind != plan.Unavailable {
		delete(n.open, a.Want)
	}
}

func (n *network) start(t *testing.T) (*resolve.Resolver, func()) {
	t.Helper()
	r := resolve.New(n, n, n.learn, noop.NewTracerProvider().Tracer(""), slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func good(w plan.Want) plan.Answer {
	return plan.Answer{Want: w, Artifact: plan.Artifact{Digest: "sha256:x"}}
}

func away(w plan.Want) plan.Answer {
	return plan.Answer{Want: w, Failure: &plan.Failure{Kind: plan.Unavailable, Text: "away"}}
}

func want(source string, i int) plan.Want {
	return plan.Want{Source: source, SourceUID: source, Commit: "1", Path: fmt.Sprint(i)}
}

func TestQuestionsAreBatchedPerSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{open: map[plan.Want]bool{}, answer: good}
		for i := range 100 {
			n.open[want("a", i)] = true
			n.open[want("b", i)] = true
		}
		_, stop := n.start(t)
		synctest.Wait()
		if len(n.open) != 0 || len(n.asked) != 4 {
			t.Errorf("%d are open, asked %d times", len(n.open), len(n.asked))
		}
		for _, wants := range n.asked {
			for _, w := range wants {
				if w.SourceUID != wants[0].SourceUID {
					t.Error("a question about two sources")
				}
			}
		}
		stop()
	})
}

func TestFailuresAreTriedAgainLessAndLessOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{open: map[plan.Want]bool{want("a", 1): true}, answer: away}
		r, stop := n.start(t)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		asked := len(n.asked)
		// At most every 30 s with an average of 15 s, and the first ones sooner.
		if asked < 20 || asked > 90 {
			t.Errorf("asked %d times in 10 min", asked)
		}
		r.Kick() // news do not cut a wait short
		synctest.Wait()
		if len(n.asked) > asked+1 {
			t.Error("asked again at once")
		}
		n.mu.Lock()
		n.answer = good
		n.mu.Unlock()
		<-time.After(31 * time.Second)
		synctest.Wait()
		if len(n.open) != 0 {
			t.Error("not tried again")
		}
		stop()
	})
}

func TestSlowSourceHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{
			open: map[plan.Want]bool{want("slow", 1): true, want("quick", 1): true}, answer: good,
			slow: map[string]time.Duration{"slow": time.Hour},
		}
		_, stop := n.start(t)
		synctest.Wait()
		if n.open[want("quick", 1)] || !n.open[want("slow", 1)] {
			t.Errorf("open: %v", n.open)
		}
		stop()
	})
}

func TestQuestionsAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{open: map[plan.Want]bool{}, answer: good, slow: map[string]time.Duration{}}
		for i := range 50 {
			s := fmt.Sprint("s", i)
			n.open[want(s, 1)] = true
			n.slow[s] = time.Second
		}
		_, stop := n.start(t)
		<-time.After(time.Minute)
		synctest.Wait()
		if n.most != 8 || len(n.open) != 0 { // each question is done before it counts as stuck
			t.Errorf("%d at a time, %d open", n.most, len(n.open))
		}
		stop()
	})
}

func TestContentThatCanNotBeFetchedIsNotDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{open: map[plan.Want]bool{want("a", 1): true}, answer: good}
		var mu sync.Mutex
		failing := errors.New("connection reset")
		n.warm = func(context.Context, plan.Want) error {
			mu.Lock()
			defer mu.Unlock()
			return failing
		}
		_, stop := n.start(t)
		synctest.Wait()
		if len(n.got) != 1 || n.got[0].Failure == nil ||
			n.got[0].Failure.Text != "its content can't be fetched: connection reset" {
			t.Fatalf("got %+v", n.got)
		}
		mu.Lock()
		failing = nil
		mu.Unlock()
		<-time.After(time.Minute)
		synctest.Wait()
		if last := n.got[len(n.got)-1]; last.Failure != nil {
			t.Errorf("got %+v", last)
		}
		stop()
	})
}

// Sources that hang, and many of them, hold up neither others nor more than a few questions each.
func TestHungSourcesMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{open: map[plan.Want]bool{}, answer: good, slow: map[string]time.Duration{}}
		for i := range 30 {
			s := fmt.Sprint("hung", i)
			n.slow[s] = time.Hour
			for j := range 200 {
				n.open[want(s, j)] = true
			}
		}
		r, stop := n.start(t)
		<-time.After(time.Minute)
		n.mu.Lock()
		n.open[want("quick", 1)] = true
		asked := n.most
		n.mu.Unlock()
		r.Kick()
		<-time.After(time.Millisecond)
		synctest.Wait()
		if n.open[want("quick", 1)] {
			t.Error("the quick one waits for the hung ones")
		}
		if asked != 60 {
			t.Errorf("%d questions about 30 sources that hang", asked)
		}
		stop()
	})
}

// Content that hangs on its way holds up nobody's nudges for longer than a moment, and its own ones not for ever.
func TestContentThatHangsIsWaitedForABoundedTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{open: map[plan.Want]bool{want("quick", 1): true}, answer: good}
		for i := range 64 {
			n.open[want("slow", i)] = true
		}
		n.warm = func(ctx context.Context, w plan.Want) error {
			if w.Source == "slow" {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		_, stop := n.start(t)
		<-time.After(time.Millisecond)
		if n.mu.Lock(); n.open[want("quick", 1)] || len(n.open) != 64 {
			t.Errorf("%d are open", len(n.open))
		}
		n.mu.Unlock()
		<-time.After(11 * time.Second)
		if n.mu.Lock(); len(n.open) != 0 {
			t.Errorf("%d are still open", len(n.open))
		}
		n.mu.Unlock()
		stop()
	})
}

// Content that can't be fetched for a while is delivered in the end: agents say then what they miss, and may find it
// elsewhere.
func TestContentThatCanNotBeFetchedIsDeliveredAfterAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{open: map[plan.Want]bool{want("a", 1): true}, answer: good}
		n.warm = func(context.Context, plan.Want) error { return errors.New("connection reset") }
		_, stop := n.start(t)
		<-time.After(25 * time.Second)
		if n.mu.Lock(); !n.open[want("a", 1)] {
			t.Error("delivered without a second try")
		}
		n.mu.Unlock()
		<-time.After(65 * time.Second)
		if n.mu.Lock(); n.open[want("a", 1)] {
			t.Error("never delivered")
		}
		n.mu.Unlock()
		stop()
	})
}

// On a busy machine all of a question takes longer than one download may. What comes is waited for.
func TestSlowDownloadsThatComeAreWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{open: map[plan.Want]bool{}, answer: good}
		var here atomic.Int64
		n.warm = func(ctx context.Context, _ plan.Want) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(3 * time.Second):
				here.Add(1)
				return nil
			}
		}
		for i := range 64 {
			n.open[want("a", i)] = true
		}
		_, stop := n.start(t)
		<-time.After(time.Minute)
		synctest.Wait()
		if len(n.got) != 64 || len(n.asked) != 1 || here.Load() != 64 {
			t.Errorf("%d are told after %d questions, and %d are here", len(n.got), len(n.asked), here.Load())
		}
		stop()
	})
}
