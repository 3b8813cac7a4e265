package owner

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/services/gitcache/internal/source"
	"fairlead.dev/services/gitcache/internal/upstream"
)

func newTenure(s source.Source) *tenure {
	return &tenure{loop: newLoop(New(Config{}, Deps{}), s), work: newWork()}
}

func TestPollsAreSpreadOverTheirInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tn := newTenure(source.Source{Interval: 100 * time.Second})
		least, most := time.Hour, time.Duration(0)
		for range 1000 {
			tn.schedulePoll(tn.loop.currentSource(), nil, 0)
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
		tn := newTenure(source.Source{})
		bad := errors.New("down")
		for n := 1; n <= 100; n++ {
			tn.schedulePoll(tn.loop.currentSource(), bad, 0)
			wait := time.Until(tn.pollAt)
			if bound := min(firstBackoff<<min(n-1, 16), mostBackoff) + minPause; wait < minPause || wait > bound {
				t.Fatalf("after %d failures it waits %s, bound is %s", n, wait, bound)
			}
		}
		tn.schedulePoll(tn.loop.currentSource(), nil, 0)
		if tn.failures != 0 {
			t.Error("a good poll does not end the backoff")
		}
	})
}

func TestRetryAfterHoldsAgainstRefreshes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tn := newTenure(source.Source{})
		tn.schedulePoll(tn.loop.currentSource(), &upstream.Error{Kind: upstream.KindThrottled}, time.Minute)
		if wait := time.Until(tn.pollAt); wait < time.Minute || wait > time.Minute+firstBackoff {
			t.Errorf("it waits %s", wait)
		}
		tn.loop.nudgeLoop()
		if err := tn.waitForDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if wait := time.Until(tn.pollAt); wait != time.Minute {
			t.Errorf("somebody who asks makes it wait %s", wait)
		}
	})
}

// Webhooks during an outage cause polls, which fail: none of them counts for the pause.
func TestPollsThatAreAskedForDoNotLengthenThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tn := newTenure(source.Source{Interval: 30 * time.Second})
		bad := errors.New("down")
		for range 3 {
			tn.schedulePoll(tn.loop.currentSource(), bad, 0)
			<-time.After(time.Until(tn.pollAt))
		}
		tn.schedulePoll(tn.loop.currentSource(), bad, 0)
		due := tn.pollAt
		for range 20 {
			tn.loop.nudgeLoop()
			if err := tn.waitForDue(t.Context()); err != nil {
				t.Fatal(err)
			}
			tn.schedulePoll(tn.loop.currentSource(), bad, 0)
			if !tn.pollAt.Equal(due) || tn.failures != 4 {
				t.Fatalf("after a poll that was asked for the next one is due in %s after %d failures, want in %s after 4", time.Until(tn.pollAt), tn.failures, time.Until(due))
			}
		}
		<-time.After(time.Until(due))
		if tn.schedulePoll(tn.loop.currentSource(), bad, 0); tn.failures != 5 {
			t.Errorf("a poll that was due counts for %d", tn.failures)
		}
	})
}

// The first poll that meets a host again wakes the host's other sources, and no others: their pauses may be minutes by
// now.
func TestTheFirstSuccessOfAHostWakesItsOtherSources(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := New(Config{}, Deps{})
		source := func(uid, url string, err error) *tenure {
			tn := &tenure{loop: newLoop(o, source.Source{UID: uid, URL: url, Interval: 30 * time.Second}), work: newWork()}
			o.loops[uid] = tn.loop
			for range 10 {
				tn.schedulePoll(tn.loop.currentSource(), err, 0)
				tn.noteHost(t.Context(), tn.loop.currentSource(), err)
				if err != nil {
					<-time.After(time.Until(tn.pollAt) - time.Millisecond)
					tn.pollAt = time.Now().Add(-time.Second)
				}
			}
			return tn
		}
		down := &upstream.Error{Kind: upstream.KindUnreachable, Message: "down"}
		first := source("first", "https://git.example.com/a.git", down)
		same := source("same", "ssh://git@GIT.example.com/b.git", down)
		other := source("other", "https://git.example.org/c.git", down)
		refused := source("refused", "https://git.example.com/d.git",
			&upstream.Error{Kind: upstream.KindCredentials, Message: "401"})
		first.schedulePoll(first.loop.currentSource(), nil, 0)
		first.noteHost(t.Context(), first.loop.currentSource(), nil)
		if len(same.loop.back) != 1 || len(other.loop.back) != 0 || len(refused.loop.back) != 0 || len(first.loop.back) != 0 {
			t.Fatalf("woken: same host %d, another host %d, refused by the host %d, itself %d", len(same.loop.back),
				len(other.loop.back), len(refused.loop.back), len(first.loop.back))
		}
		planned := time.Now().Add(2 * time.Minute)
		same.pollAt = planned
		if err := same.waitForDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if wait := time.Until(same.pollAt); wait > minPause {
			t.Errorf("it is polled in %s", wait)
		}
		failures := same.failures
		same.schedulePoll(same.loop.currentSource(), down, 0)
		if same.failures != failures || !same.pollAt.Equal(planned) {
			t.Errorf("a failure of that poll counts: %d failures, next in %s", same.failures, time.Until(same.pollAt))
		}
		same.schedulePoll(same.loop.currentSource(), nil, 0)
		same.noteHost(t.Context(), same.loop.currentSource(), nil)
		if len(first.loop.back) != 0 {
			t.Error("a source that is well is woken")
		}
	})
}

// Two replicas own sources of one host. Its first answer to one of them wakes those of the other, and nothing echoes.
func TestTheFirstSuccessOfAHostWakesItsSourcesOfOtherReplicas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said []string // by replica, in the order in which it was said
		replica := func(name string) *Owner {
			return New(Config{Replica: name}, Deps{Answered: func(_ context.Context, host string) error {
				said = append(said, name+" "+host)
				return nil
			}})
		}
		one, other := replica("one"), replica("other")
		down := &upstream.Error{Kind: upstream.KindUnreachable, Message: "down"}
		source := func(o *Owner, uid, url string) *tenure {
			tn := &tenure{loop: newLoop(o, source.Source{UID: uid, URL: url, Interval: 30 * time.Second}), work: newWork()}
			o.loops[uid] = tn.loop
			tn.noteHost(t.Context(), tn.loop.currentSource(), down)
			return tn
		}
		first, second := source(one, "1", "https://git.example.com/a.git"), source(one, "2",
			"https://git.example.com/b.git")
		far, well := source(other, "3", "https://git.example.com/c.git"), source(other, "4",
			"https://git.example.org/d.git")
		for _, tn := range []*tenure{first, second} { // the second one was woken by the first
			tn.noteHost(t.Context(), tn.loop.currentSource(), nil)
		}
		if !slices.Equal(said, []string{"one git.example.com"}) {
			t.Fatalf("said: %q", said)
		}
		began := time.Now()
		other.HostAnswered(t.Context(), "git.example.com")
		if len(far.loop.back) != 1 || len(well.loop.back) != 0 || time.Since(began) > announceSpread {
			t.Errorf("woken after %s: %d of the host, %d of another one", time.Since(began), len(far.loop.back),
				len(well.loop.back))
		}
		<-far.loop.back
		other.HostAnswered(t.Context(), "git.example.com") // another replica says the same, before the poll
		other.HostAnswered(t.Context(), "nobody.example.com")
		if len(far.loop.back) != 0 || len(other.answered) != 1 {
			t.Errorf("woken again: %d; of hosts it keeps %v", len(far.loop.back), other.answered)
		}
		far.noteHost(t.Context(), far.loop.currentSource(), nil)
		if len(said) != 1 {
			t.Errorf("the news echoes: %q", said)
		}
		// Another outage is announced again, by the replica that it ends for first.
		for _, tn := range []*tenure{far, first} {
			tn.noteHost(t.Context(), tn.loop.currentSource(), down)
		}
		far.noteHost(t.Context(), far.loop.currentSource(), nil)
		if len(said) != 2 || said[1] != "other git.example.com" {
			t.Errorf("said: %q", said)
		}
		began = time.Now()
		one.HostAnswered(t.Context(), "git.example.com")
		if len(first.loop.back) != 1 || time.Since(began) > announceSpread {
			t.Errorf("after another outage: woken %d", len(first.loop.back))
		}
	})
}

// A host that answers one poll and fails the polls that this wakes is still in its outage: each replica hears of the
// end, and tells of it.
func TestAHostThatFailsTheWokenPollsIsAnnouncedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		said := 0
		o := New(Config{}, Deps{Answered: func(context.Context, string) error {
			said++
			return nil
		}})
		down := &upstream.Error{Kind: upstream.KindUnreachable, Message: "down"}
		tn := &tenure{loop: newLoop(o, source.Source{
			UID: "1", URL: "https://git.example.com/a.git",
			Interval: 30 * time.Second,
		}), work: newWork()}
		o.loops["1"] = tn.loop
		tn.noteHost(t.Context(), tn.loop.currentSource(), down)
		for range 3 {
			o.HostAnswered(t.Context(), "git.example.com")
			if len(tn.loop.back) != 1 {
				t.Fatal("the end of the outage is not heard of")
			}
			<-tn.loop.back
			tn.noteHost(t.Context(), tn.loop.currentSource(), down)
		}
		tn.noteHost(t.Context(), tn.loop.currentSource(), nil)
		if said != 1 {
			t.Errorf("the first answer to a poll of this replica is announced %d times", said)
		}
	})
}

func TestManyNudgesAreOne(t *testing.T) {
	t.Parallel()
	l := newLoop(New(Config{}, Deps{}), source.Source{})
	for range 100 {
		l.nudgeLoop()
	}
	if len(l.wake) != 1 {
		t.Errorf("%d polls are due", len(l.wake))
	}
}

type place int

func (p place) Place(string) int { return int(p) }

func TestTheFartherFromAPreferenceTheLongerTheOthersGet(t *testing.T) {
	t.Parallel()
	const ttl = 16 * time.Second
	o := New(Config{TTL: ttl}, Deps{})
	l := newLoop(o, source.Source{UID: "a"})
	for p, bounds := range map[place][2]time.Duration{
		-1: {-1, -1}, 0: {0, 0}, 1: {ttl * 5 / 8, ttl * 3 / 4}, 2: {ttl, ttl * 9 / 8}, 9: {ttl, ttl * 9 / 8},
	} {
		o.deps.Placement = p
		for range 100 {
			if turn := l.waitForTurn(); turn < bounds[0] || turn > bounds[1] {
				t.Fatalf("at place %d it leaves %s to others", p, turn)
			}
		}
	}
}

func TestWhoIsToldToTakeASourceDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := New(Config{}, Deps{Placement: place(2)})
		l := newLoop(o, source.Source{UID: "a"})
		o.loops["a"] = l
		if err := o.Take(t.Context(), "a", Schedule{}, false); !errors.Is(err, ErrNotOwned) {
			t.Errorf("it took it without a lease: %v", err)
		}
		if l.waitForTurn() == 0 {
			t.Error("it tries out of turn for ever")
		}
		next := time.Now().Add(time.Minute)
		go func() { _ = o.Take(t.Context(), "a", Schedule{Next: next}, true) }()
		synctest.Wait()
		if l.waitForTurn() != 0 {
			t.Error("it waits")
		}
		if due, handed := l.place.beginTenure(); !handed || !due.Next.Equal(next) {
			t.Errorf("handed over: %t, polled next at %s", handed, due.Next)
		}
		l.place.endTenure(Schedule{}, false)
		l.place.noteReleased()
		if due, handed := l.place.beginTenure(); handed || !due.Next.Equal(time.Now()) {
			t.Errorf("a schedule was used twice: %s", due.Next)
		}
		if l.waitForTurn() != 0 {
			t.Error("what is to stay here is left to others")
		}
		o.deps.Placement = place(-1)
		if l.waitForTurn() >= 0 {
			t.Error("it is kept although the replica drains")
		}
		o.deps.Placement = place(0)
		o.Expect("a")
		if l.waitForTurn() >= 0 {
			t.Error("it takes what it is about to be given, without knowing when to poll")
		}
		<-time.After(expectTime)
		if l.waitForTurn() != 0 {
			t.Error("it waits for ever for an owner that has gone")
		}
	})
}

func TestAWishOutlivesAHandover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := New(Config{}, Deps{Placement: place(1)})
		l := newLoop(o, source.Source{UID: "a"})
		o.loops["a"] = l
		if o.Refresh("a") {
			t.Error("it says that it polls what it does not own")
		}
		go func() { _ = o.Take(t.Context(), "a", Schedule{Next: time.Now().Add(time.Hour)}, false) }()
		synctest.Wait()
		if due, _ := l.place.beginTenure(); due.Next.After(time.Now()) {
			t.Errorf("who asked for a poll waits %s", time.Until(due.Next))
		}
	})
}

func TestAMirrorIsWrittenByOneOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := New(Config{}, Deps{})
		l := newLoop(o, source.Source{UID: "a"})
		o.loops["a"] = l
		copying, back, ok := o.Borrow(t.Context(), "a")
		if !ok {
			t.Fatal("the mirror is not to be had")
		}
		if _, _, again := o.Borrow(t.Context(), "a"); again {
			t.Error("it is lent twice")
		}
		owned := make(chan struct{})
		go func() {
			l.place.beginTenure()
			close(owned)
		}()
		<-copying.Done()
		synctest.Wait()
		select {
		case <-owned:
			t.Error("the owner did not wait for the copy to end")
		default:
		}
		back()
		<-owned
		if _, _, ok := o.Borrow(t.Context(), "a"); ok {
			t.Error("the mirror of an owned source is lent")
		}
		l.place.endTenure(Schedule{}, false)
		if _, _, ok := o.Borrow(t.Context(), "a"); ok {
			t.Error("the mirror is lent before the lease was given back")
		}
		l.place.noteReleased()
		if _, back, ok = o.Borrow(t.Context(), "a"); !ok {
			t.Error("the mirror is not lent after the tenure")
		}
		back()
		l.place.closeForGood()
		if _, _, ok := o.Borrow(t.Context(), "a"); ok {
			t.Error("the mirror of a deleted source is lent")
		}
	})
}
