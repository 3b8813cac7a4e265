package peers

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/platform/coordination"
)

// polls is a console as a replica hears it: every pollEvery, until it is cut off.
type polls struct {
	began time.Time
	cut   atomic.Pointer[time.Time]
}

const pollEvery = 12 * time.Second

func (p *polls) heard() time.Time {
	last := time.Now()
	if at := p.cut.Load(); at != nil {
		last = *at
	}
	return p.began.Add(last.Sub(p.began).Truncate(pollEvery))
}

func (p *polls) cutOff() {
	now := time.Now()
	p.cut.Store(&now)
}

func TestAReplicaThatDoesNotReachTheConsoleLeavesItsSourcesToOneThatDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, link := memory(t), &polls{began: time.Now()}
		one, stopOne := runHearing(t, c, "one", link.heard)
		two, stopTwo := runHearing(t, c, "two", (&polls{began: time.Now()}).heard)
		<-time.After(time.Minute)
		both := one.Rank("uid")
		if len(both) != 2 || one.CutOff() || two.CutOff() {
			t.Fatalf("%q", both)
		}
		link.cutOff()
		<-time.After(cutOffAfter - pollEvery - time.Second)
		if one.CutOff() || len(two.Rank("uid")) != 2 {
			t.Error("it leaves its sources at the first silence")
		}
		<-time.After(2 * ttl)
		for _, p := range []*Peers{one, two} {
			if got := p.Rank("uid"); !slices.Equal(got, []string{"two"}) {
				t.Errorf("%q should own", got)
			}
		}
		if !one.CutOff() || two.CutOff() || one.Alone() || !two.Alone() || !one.Replicas()[0].CutOff {
			t.Errorf("one: %v, two: %v", one.CutOff(), two.CutOff())
		}
		link.cut.Store(nil)
		<-time.After(mendedAfter - time.Second)
		if !one.CutOff() {
			t.Error("it takes sources again at the first word")
		}
		<-time.After(2 * ttl)
		for _, p := range []*Peers{one, two} {
			if got := p.Rank("uid"); !slices.Equal(got, both) {
				t.Errorf("%q should own when all is well again", got)
			}
		}
		stopTwo()
		stopOne()
	})
}

func TestWhatIsCutOffOwnsWhenNobodyElseIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, link := memory(t), &polls{began: time.Now()}
		one, stopOne := runHearing(t, c, "one", link.heard)
		_, stopTwo := runHearing(t, c, "two", (&polls{began: time.Now()}).heard)
		link.cutOff()
		<-time.After(cutOffAfter + 2*ttl)
		if !one.CutOff() {
			t.Fatal("it is not cut off")
		}
		stopTwo()
		<-time.After(2 * ttl)
		if one.CutOff() || one.Place("uid") != 0 {
			t.Errorf("nobody fetches: %q should own", one.Rank("uid"))
		}
		stopOne()
	})
}

func TestNothingMovesWhenTheConsoleIsAwayForAll(t *testing.T) {
	t.Parallel()
	// Of two replicas one has just heard the console, and the other almost a poll ago; heartbeats come at random times.
	for apart := time.Duration(0); apart < pollEvery; apart += pollEvery / 4 {
		synctest.Test(t, func(t *testing.T) {
			c, first := memory(t), &polls{began: time.Now()}
			one, stopOne := runHearing(t, c, "one", first.heard)
			<-time.After(apart)
			second := &polls{began: time.Now()}
			two, stopTwo := runHearing(t, c, "two", second.heard)
			<-time.After(time.Minute)
			settled, both := one.Settled(), one.Rank("uid")
			first.cutOff()
			second.cutOff()
			for range 120 {
				<-time.After(time.Second)
				if one.CutOff() || two.CutOff() || !slices.Equal(one.Rank("uid"), both) ||
					!slices.Equal(two.Rank("uid"), both) {
					t.Fatalf("%s apart: %q, %q", apart, one.Rank("uid"), two.Rank("uid"))
				}
			}
			if !one.Settled().Equal(settled) {
				t.Error("the replicas look as if they came and went")
			}
			stopTwo()
			stopOne()
		})
	}
}

// The records of the others from before the store went away say nothing of now.
func TestNothingMovesWhenTheConsoleAndTheStoreAreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, link := &store{Coordinator: memory(t)}, &polls{began: time.Now()}
		one, stopOne := runHearing(t, c, "one", link.heard)
		two, stopTwo := runHearing(t, c, "two", link.heard)
		<-time.After(time.Minute)
		both := one.Rank("uid")
		link.cutOff()
		c.away.Store(true)
		for range 120 {
			<-time.After(time.Second)
			if len(both) != 2 || !slices.Equal(one.Rank("uid"), both) || !slices.Equal(two.Rank("uid"), both) {
				t.Fatalf("%q, %q", one.Rank("uid"), two.Rank("uid"))
			}
		}
		c.away.Store(false)
		for range 120 {
			<-time.After(time.Second)
			if one.CutOff() || two.CutOff() {
				t.Fatal("a cut-off begins when the store is back, and the console is away for all")
			}
		}
		stopTwo()
		stopOne()
	})
}

// A record ages from the list that had it last.
func TestARecordThatIsNoLongerListedAges(t *testing.T) {
	t.Parallel()
	p, now := New(Config{Replica: "one"}, Deps{Client: &http.Client{}}), time.Now()
	for seen, hears := range map[time.Duration]bool{
		0: true, heardLately - 4*time.Second: true,
		heardLately - 3*time.Second: false, cutOffAfter: false,
	} {
		two := coordination.Member{ID: "two", Meta: map[string]string{metaSilence: "3"}}
		p.known = map[string]known{"two": {two, now.Add(-seen)}}
		if p.anotherHearsLocked(now) != hears {
			t.Errorf("seen %s ago, it hears the console: %t", seen, !hears)
		}
	}
}

func TestNoCutOffBeginsWithoutTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, link := &store{Coordinator: memory(t)}, &polls{began: time.Now()}
		one, stopOne := runHearing(t, c, "one", link.heard)
		_, stopTwo := runHearing(t, c, "two", nil)
		<-time.After(time.Minute)
		link.cutOff()
		<-time.After(cutOffAfter - 4*time.Second)
		c.away.Store(true)
		for range 60 {
			<-time.After(time.Second)
			if one.CutOff() {
				t.Fatal("it leaves its sources, and can't tell the other replica")
			}
		}
		c.away.Store(false)
		<-time.After(2 * ttl)
		if !one.CutOff() {
			t.Error("it keeps its sources when the store is back")
		}
		stopTwo()
		stopOne()
	})
}

// store is a store that may be away.
type store struct {
	coordination.Coordinator

	away atomic.Bool
}

var errAway = errors.New("the store is away")

func (s *store) Join(ctx context.Context, group string, m coordination.Member, ttl time.Duration) error {
	if s.away.Load() {
		return errAway
	}
	return s.Coordinator.Join(ctx, group, m, ttl)
}

func (s *store) Members(ctx context.Context, group string) ([]coordination.Member, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.Coordinator.Members(ctx, group)
}

func (s *store) Publish(ctx context.Context, topic string, payload []byte) error {
	if s.away.Load() {
		return errAway
	}
	return s.Coordinator.Publish(ctx, topic, payload)
}
