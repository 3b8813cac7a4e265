package owner

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/services/gitcache/internal/fetch"
)

func newTenure(s Source) *tenure {
	return &tenure{loop: newLoop(New(Config{}, Deps{}), s), work: newWork()}
}

func TestPollsAreSpreadOverTheirInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tn := newTenure(Source{Interval: 100 * time.Second})
		least, most := time.Hour, time.Duration(0)
		for range 1000 {
			tn.schedule(tn.current(), nil, 0)
			wait := time.Until(tn.pollAt)
			least, most = min(least, wait), max(most, wait)
		}
		if least < 90*time.Second || most > 110*time.Second || most-least < 15*time.Second {
			t.Errorf("waits are from %s to %s", least, most)
		}
	})
}

func TestFailuresBackOffWithinBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tn := newTenure(Source{})
		bad := errors.New("down")
		for n := 1; n <= 100; n++ {
			tn.schedule(tn.current(), bad, 0)
			wait := time.Until(tn.pollAt)
			if bound := min(firstBackoff<<min(n-1, 16), mostBackoff) + minPause; wait < minPause || wait > bound {
				t.Fatalf("after %d failures it waits %s, bound is %s", n, wait, bound)
			}
		}
		tn.schedule(tn.current(), nil, 0)
		if tn.failures != 0 {
			t.Error("a good poll does not end the backoff")
		}
	})
}

func TestRetryAfterHoldsAgainstRefreshes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tn := newTenure(Source{})
		tn.schedule(tn.current(), &fetch.Error{Kind: fetch.KindThrottled}, time.Minute)
		if wait := time.Until(tn.pollAt); wait < time.Minute || wait > time.Minute+firstBackoff {
			t.Errorf("it waits %s", wait)
		}
		tn.nudge()
		if err := tn.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if wait := time.Until(tn.pollAt); wait != time.Minute {
			t.Errorf("somebody who asks makes it wait %s", wait)
		}
	})
}

func TestManyNudgesAreOne(t *testing.T) {
	t.Parallel()
	l := newLoop(New(Config{}, Deps{}), Source{})
	for range 100 {
		l.nudge()
	}
	if len(l.wake) != 1 {
		t.Errorf("%d polls are due", len(l.wake))
	}
}

type count int

func (c count) Count() int { return int(c) }

func TestAReplicaWithItsShareLetsOthersGoFirst(t *testing.T) {
	t.Parallel()
	const ttl = 15 * time.Second
	o := New(Config{}, Deps{Members: count(3)})
	for _, uid := range []string{"a", "b", "c", "d", "e", "f"} {
		o.loops[uid] = newLoop(o, Source{UID: uid})
	}
	if wait := o.hesitation(ttl); wait != 0 {
		t.Errorf("with nothing it waits %s", wait)
	}
	for _, uid := range []string{"a", "b"} {
		o.loops[uid].set(func(s *State) { s.Owned = true })
	}
	if wait := o.hesitation(ttl); wait < ttl/3 || wait > 2*ttl {
		t.Errorf("with its share it waits %s", wait)
	}
	o.deps.Members = count(1)
	if wait := o.hesitation(ttl); wait != 0 {
		t.Errorf("alone it waits %s", wait)
	}
}
