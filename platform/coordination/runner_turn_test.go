package coordination_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/platform/coordination"
)

// start runs h until the test ends, and returns when it holds the lease.
func start(t *testing.T, h coordination.LeaseRunner) (held <-chan time.Time, stop func()) {
	t.Helper()
	times := make(chan time.Time, 100)
	work := h.Do
	h.Do = func(ctx context.Context, l *coordination.Lease) error {
		times <- time.Now()
		return work(ctx, l)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return times, stop
}

func turn(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func TestAFreeLeaseIsLeftToOthersFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openMemory(t)
		first, second := hold(c, "first", untilDone), hold(c, "second", untilDone)
		first.Turn, second.Turn = turn(0), turn(holdTTL/2)
		gotSecond, stopSecond := start(t, second)
		<-time.After(holdTTL / 4)
		gotFirst, stopFirst := start(t, first)
		<-time.After(10 * holdTTL)
		if len(gotSecond) != 0 || len(gotFirst) != 1 {
			t.Errorf("the first had it %d times, the second %d times", len(gotFirst), len(gotSecond))
		}
		stopFirst()
		freed := time.Now()
		// No other holder wants it: the second does not wait for ever.
		if took := (<-gotSecond).Sub(freed); took < holdTTL/2 || took > holdTTL+time.Second {
			t.Errorf("the second waited %s", took)
		}
		stopSecond()
	})
}

// The lease was free when the pause began and is free when it ends, for another reason.
func TestALeaseThatWasTakenMeanwhileIsLeftToOthersOnceMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openMemory(t)
		h := hold(c, "late", untilDone)
		h.Turn = turn(holdTTL)
		got, stop := start(t, h)
		<-time.After(time.Second)
		l, err := c.Acquire(t.Context(), "k", "first", coordination.MaxTTL)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(holdTTL - 2*time.Second)
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		freed := time.Now()
		if took := (<-got).Sub(freed); took < holdTTL {
			t.Errorf("it left the lease to others for %s", took)
		}
		stop()
	})
}

func TestWhoShouldHaveALeaseTriesOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openMemory(t)
		l, err := c.Acquire(t.Context(), "k", "other", coordination.MaxTTL)
		if err != nil {
			t.Fatal(err)
		}
		h := hold(c, "first", untilDone)
		h.Turn = turn(0)
		got, stop := start(t, h)
		<-time.After(10 * holdTTL)
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		freed := time.Now()
		if took := (<-got).Sub(freed); took > holdTTL/5 {
			t.Errorf("it came %s after the lease was free", took)
		}
		stop()
	})
}

func TestWhoseTurnItIsNotDoesNotTryUntilWoken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openMemory(t)
		wake := make(chan struct{}, 1)
		may := make(chan time.Duration, 1)
		may <- -1
		h := hold(c, "one", untilDone)
		h.Wake = wake
		h.Turn = func() time.Duration {
			d := <-may
			may <- d
			return d
		}
		got, stop := start(t, h)
		<-time.After(10 * holdTTL)
		if len(got) != 0 {
			t.Error("it had the lease before its turn")
		}
		// also out of the pause in which it leaves it to others
		for _, next := range []time.Duration{coordination.MaxTTL, 0} {
			<-may
			may <- next
			wake <- struct{}{}
			<-time.After(100 * time.Millisecond)
		}
		if len(got) != 1 {
			t.Errorf("after it was woken it had the lease %d times", len(got))
		}
		stop()
	})
}

func TestTheEndOfALeaseIsToldWhenOthersCanHaveIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openMemory(t)
		h := hold(c, "one", func(context.Context, *coordination.Lease) error { return nil })
		over := make(chan string, 1)
		h.Over = func() {
			holder, err := c.Holder(t.Context(), "k")
			if err != nil {
				t.Error(err)
			}
			over <- holder
		}
		got, stop := start(t, h)
		<-got
		if holder := <-over; holder != "" {
			t.Errorf("%q holds it still", holder)
		}
		stop()
	})
}
