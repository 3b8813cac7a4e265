package peers

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/platform/coordination"
)

const ttl = 15 * time.Second

func memory(t *testing.T) coordination.Coordinator {
	t.Helper()
	c, err := coordination.Open("memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// run makes a replica live until stop.
func run(t *testing.T, c coordination.Coordinator, id string) (p *Peers, stop func()) {
	t.Helper()
	return runHearing(t, c, id, nil)
}

func runHearing(t *testing.T, c coordination.Coordinator, id string, heard func() time.Time) (p *Peers, stop func()) {
	t.Helper()
	p = New(Config{Replica: id, URL: func() string { return "https://" + id }, TTL: ttl, Heard: heard}, Deps{
		Coordinator: c, Client: &http.Client{Transport: &line{}}, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return p, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func names(p *Peers) []string {
	var all []string
	for _, r := range p.Replicas() {
		all = append(all, r.Name)
	}
	return all
}

func TestNobodyIsRankedBeforeItIsKnownWhoLives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Replica: "one", URL: func() string { return "https://one" }},
			Deps{Coordinator: memory(t), Client: &http.Client{}})
		if p.Place("uid") >= 0 || p.Rank("uid") != nil {
			t.Error("it takes sources without knowing whose they are")
		}
	})
}

func TestReplicasKnowEachOtherAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := memory(t)
		one, stopOne := run(t, c, "one")
		synctest.Wait()
		if !one.Alone() || !one.Single() || one.Place("uid") != 0 {
			t.Error("the only one does not own everything")
		}
		settled := one.Settled()
		<-time.After(time.Second)
		two, stopTwo := run(t, c, "two")
		synctest.Wait()
		if got := names(one); !slices.Equal(got, []string{"one", "two"}) || one.Alone() ||
			!one.Settled().After(settled) {
			t.Errorf("one knows of %q", got)
		}
		if !slices.Equal(one.Rank("uid"), two.Rank("uid")) {
			t.Errorf("%q and %q", one.Rank("uid"), two.Rank("uid"))
		}
		if err := two.Drain(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !one.Alone() || one.Single() || !slices.Equal(one.Rank("uid"), []string{"one"}) || two.Place("uid") >= 0 {
			t.Errorf("one that drains is ranked: %q", one.Rank("uid"))
		}
		stopTwo()
		synctest.Wait()
		if got := names(one); !slices.Equal(got, []string{"one"}) {
			t.Errorf("who has left lives on: %q", got)
		}
		stopOne()
	})
}

// A flushed store has nobody until all have said again that they live.
func TestAFlushedStoreEmptiesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := memory(t)
		one, stopOne := run(t, c, "one")
		_, stopTwo := run(t, c, "two")
		synctest.Wait()
		settled := one.Settled()
		for range 20 {
			for _, id := range []string{"one", "two"} {
				if err := c.Leave(t.Context(), Group, id); err != nil {
					t.Fatal(err)
				}
			}
			for range 10 {
				<-time.After(ttl / 10)
				if got := names(one); !slices.Equal(got, []string{"one", "two"}) {
					t.Fatalf("after the flush there is %q", got)
				}
			}
		}
		if !one.Settled().Equal(settled) {
			t.Error("the flush looks like replicas that come and go")
		}
		stopTwo()
		stopOne()
	})
}

func TestADeadReplicaIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := memory(t)
		one, stop := run(t, c, "one")
		if err := c.Join(t.Context(), Group, coordination.Member{ID: "dead", URL: "https://dead"}, ttl); err != nil {
			t.Fatal(err)
		}
		<-time.After(ttl / 2)
		if one.Single() {
			t.Error("it was never known")
		}
		<-time.After(3 * ttl)
		if !one.Single() || one.Place("uid") != 0 {
			t.Errorf("the dead own %q", one.Rank("uid"))
		}
		stop()
	})
}

func TestTheOwnerIsAskedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := memory(t)
		one, stopOne := run(t, c, "one")
		_, stopTwo := run(t, c, "two")
		_, stopThree := run(t, c, "three")
		synctest.Wait()
		for _, owner := range []string{"two", "three"} {
			l, err := c.Acquire(t.Context(), "source/uid", owner, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if got := one.Holders(t.Context(), "uid"); len(got) != 2 || got[0].ID != owner {
				t.Errorf("with %q as the owner it asks %v", owner, got)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		rank := slices.DeleteFunc(one.Rank("uid"), func(n string) bool { return n == "one" })
		if got := one.Holders(t.Context(), "uid"); len(got) != 2 || got[0].ID != rank[0] {
			t.Errorf("without an owner it asks %v, ranked are %q", got, rank)
		}
		stopThree()
		stopTwo()
		stopOne()
	})
}
