package distributor_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/coordination"
)

// A replica that is cut off from the console, and does not know of it yet, never turns back an agent that
// was told something newer by another one.
func TestReplicaThatIsBehindTurnsNobodyBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	second := *w
	second.dir, second.consoleServer = t.TempDir(), w.serve(w.consoleServer.handler)
	front, behind := w.start(), second.start()
	a, b := front.agent("edge-1"), behind.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	b.awaitCommit("hello", commit("1"))

	second.consoleServer.stop()
	w.git.commit(t, commit("2"), "apps/hello", "two")
	w.console.put(shop("HEAD", commit("2")), service("more", "edge-1", "apps/hello"))
	a.awaitCommit("hello", commit("2"))
	a.awaitCommit("more", commit("2"))
	seen := a.ask(&deliveryv1.SyncRequest{Digest: a.digest()}).GetRevision()
	if seen == 0 {
		t.Fatal("told of no revision")
	}
	for _, req := range []*deliveryv1.SyncRequest{{Digest: a.digest(), Have: a.list(), Revision: seen}, {Digest: a.digest(), Revision: seen}} {
		resp := b.ask(req)
		if resp.GetHaveWanted() != nil {
			continue // it asks for the list
		}
		if resp.GetNotModified() == nil || resp.GetRevision() != 0 {
			t.Errorf("turned back: %v", resp)
		}
		if d := resp.GetNextPoll().AsDuration(); d > 10*time.Second {
			t.Errorf("asks again in %s", d)
		}
	}
	// What an agent does not have at all it gets.
	if resp := b.ask(&deliveryv1.SyncRequest{Revision: seen}); len(resp.GetChanges().GetServices()) != 1 || len(resp.GetChanges().GetRemoved()) != 0 {
		t.Errorf("lost everything, got %v", resp)
	}
	second.consoleServer.start()
	w.eventually("the replica has caught up", func() bool {
		resp := b.ask(&deliveryv1.SyncRequest{Digest: a.digest(), Have: a.list(), Revision: seen})
		return resp.GetNotModified() != nil && resp.GetRevision() >= seen
	})
}

// Behind a balancer a nudge may come from a replica that has new content, and the answer from one that is still asking for
// it, and nudges its own agents only: the agent is told to ask again soon.
func TestAgentThatAnotherReplicaNudgedAsksAgainSoon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	second := *w
	second.dir = t.TempDir()
	var err error
	if second.coord, err = coordination.Open(""); err != nil {
		t.Fatal(err)
	}
	var slow atomic.Bool
	goOn, gitcache := make(chan struct{}), w.git.handler()
	second.join("gitcache-1", w.serve(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if slow.Load() {
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
		}
		gitcache.ServeHTTP(out, r)
	})).url)
	front, behind := w.start(), second.start()
	a, b := front.agent("edge-1"), behind.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	b.awaitCommit("hello", commit("1"))
	next := func() time.Duration {
		return b.ask(&deliveryv1.SyncRequest{Digest: b.digest()}).GetNextPoll().AsDuration()
	}
	if d := next(); d < w.poll/2 {
		t.Errorf("with nothing new: %s", d)
	}

	slow.Store(true)
	w.git.commit(t, commit("2"), "apps/hello", "two")
	w.console.put(shop("HEAD", commit("2")))
	a.awaitCommit("hello", commit("2"))
	w.eventually("it is told to ask again soon", func() bool { return next() < 10*time.Second })
	close(goOn)
	b.awaitCommit("hello", commit("2"))
	if d := next(); d < w.poll/2 {
		t.Errorf("once it has all: %s", d)
	}
}
