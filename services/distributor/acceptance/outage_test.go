package acceptance

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/coordination/redistest"
)

// Console, Redis and gitcaches go away, one after another and all at once, and come back, while agents
// go on asking: they get no error on an unchanged Sync or a cached artifact, and in the end what changed.
func TestAgentsSeeNothingOfOutagesBehindTheEdge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	redis := redistest.Start(t)
	var err error
	if w.coord, err = coordination.Open(redis.URL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.coord.Close() })
	second := newGitcache(t)
	second.store = w.git.store
	secondServer := w.serve(second.handler())
	joined := func() {
		w.join("gitcache-1", w.gitServer.url)
		w.join("gitcache-2", secondServer.url)
	}
	joined()
	w.ship()
	second.follow(w.git)
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	a.mustHave()

	console := [2]func(){w.consoleServer.stop, w.consoleServer.start}
	gitcaches := [2]func(){
		func() { w.gitServer.stop(); secondServer.stop() },
		func() { w.gitServer.start(); secondServer.start() },
	}
	store := [2]func(){redis.Kill, func() { redis.Restart(); joined() }}
	all := [2]func(){
		func() { console[0](); store[0](); gitcaches[0]() },
		func() { gitcaches[1](); store[1](); console[1]() },
	}
	hung := [2]func(){redis.Pause, redis.Resume}
	for i, outage := range [][2]func(){console, store, hung, gitcaches, all} {
		fleet := e.unchanged(a, 4)
		outage[0]()
		fleet.twice()
		outage[1]()
		fleet.twice()
		fleet.stop()
		c := commit(fmt.Sprintf("%x", 2+i))
		w.git.commit(t, c, "apps/hello", "after outage "+c)
		second.follow(w.git)
		w.console.Put(shop("HEAD", c))
		a.awaitCommit("hello", c)
		a.mustHave()
	}
}

// follow makes a gitcache know what another knows.
func (g *gitcache) follow(other *gitcache) {
	other.mu.Lock()
	folders := maps.Clone(other.folders)
	other.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.folders = folders
}

// fleet are agents that have all they should have, and ask on and on.
type fleet struct {
	w      *world
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex // guards what follows
	rounds []int      // of each agent
}

// unchanged starts n agents that have what a has.
func (e *edge) unchanged(a *agent, n int) *fleet {
	ctx, cancel := context.WithCancel(context.Background())
	f := &fleet{w: e.w, cancel: cancel, rounds: make([]int, n)}
	e.w.t.Cleanup(f.stop)
	digest, content := a.digest(), a.got["hello"].GetArtifact().GetDigest()
	for i := range n {
		one := e.agent("edge-1")
		f.done.Go(func() {
			for ctx.Err() == nil {
				f.ask(one, digest, content)
				f.mu.Lock()
				f.rounds[i]++
				f.mu.Unlock()
			}
		})
	}
	return f
}

// ask does what an agent does that has all it should have, and its look at itself.
func (f *fleet) ask(one *agent, digest, content string) {
	resp, err := one.rpc.Sync(context.Background(), &deliveryv1.SyncRequest{Digest: digest})
	if err != nil || resp.GetNotModified() == nil {
		f.w.t.Errorf("unchanged Sync: %v, %v", resp, err)
	}
	b, err := one.download(content)
	if err != nil || digestOf(b) != artifact.Digest(content) {
		f.w.t.Errorf("cached artifact: %d bytes, %v", len(b), err)
	}
}

// twice waits until every agent has begun and ended a round.
func (f *fleet) twice() {
	f.w.t.Helper()
	f.mu.Lock()
	var from []int
	from = append(from, f.rounds...)
	f.mu.Unlock()
	await.True(f.w.t, "every agent has asked", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i := range f.rounds {
			if f.rounds[i] < from[i]+2 {
				return false
			}
		}
		return true
	})
}

func (f *fleet) stop() {
	f.cancel()
	f.done.Wait()
}
