package acceptance

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/deliveryclient"
	"fairlead.dev/platform/longform"
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
	w.console.Put(shop("HEAD", commit("2")), service("more", "edge-1", "apps/hello"))
	a.awaitCommit("hello", commit("2"))
	a.awaitCommit("more", commit("2"))
	seen := a.ask(&deliveryv1.SyncRequest{Digest: a.digest()}).GetRevision()
	if seen == 0 {
		t.Fatal("told of no revision")
	}
	for _, req := range []*deliveryv1.SyncRequest{
		{Digest: a.digest(), Have: a.list(), Revision: seen},
		{Digest: a.digest(), Revision: seen},
	} {
		resp := b.ask(req)
		if resp.GetHaveWanted() != nil {
			continue // the distributor asks for the list
		}
		if resp.GetNotModified() == nil || resp.GetRevision() != 0 {
			t.Errorf("turned back: %v", resp)
		}
		if d := resp.GetNextPoll().AsDuration(); d > 10*time.Second {
			t.Errorf("asks again in %s", d)
		}
	}
	// An agent that lacks a service may have been told to remove it; one that lost its disk has seen nothing.
	if resp := b.ask(&deliveryv1.SyncRequest{Revision: seen}); resp.GetNotModified() == nil || resp.GetRevision() != 0 {
		t.Errorf("told of a service that the agent may have been told to remove: %v", resp)
	}
	if resp := b.ask(&deliveryv1.SyncRequest{}); len(resp.GetChanges().GetServices()) != 1 ||
		len(resp.GetChanges().GetRemoved()) != 0 {
		t.Errorf("lost everything, got %v", resp)
	}
	second.consoleServer.start()
	await.True(w.t, "the replica has caught up", func() bool {
		resp := b.ask(&deliveryv1.SyncRequest{Digest: a.digest(), Have: a.list(), Revision: seen})
		return resp.GetNotModified() != nil && resp.GetRevision() >= seen
	})
}

// Behind a balancer a nudge may come from a replica that has new content, and the answer from one that is still asking
// for it, and nudges its own agents only: the agent is told to ask again soon.
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
	w.console.Put(shop("HEAD", commit("2")))
	a.awaitCommit("hello", commit("2"))
	await.True(w.t, "it is told to ask again soon", func() bool { return next() < 10*time.Second })
	close(goOn)
	b.awaitCommit("hello", commit("2"))
	if d := next(); d < w.poll/2 {
		t.Errorf("once it has all: %s", d)
	}
}

// Behind a balancer a nudge may come from a replica that has heard of a new head, and the answer from one that has not,
// and for which the agent has all that it should have: it asks again soon, and not only with its next poll.
func TestAgentThatAnotherReplicaNudgedDoesNotWaitForItsNextPoll(t *testing.T) {
	t.Parallel()
	longform.Only(t, "a wait of 5 s")
	w := newWorld(t)
	w.ship()
	second := *w
	second.dir, second.consoleServer = t.TempDir(), w.serve(w.consoleServer.handler)
	between := &balancer{
		nudges: w.start().agent("edge-1"), answers: second.start().agent("edge-1"),
		answered: make(chan *deliveryv1.SyncRequest, 100),
	}
	between.nudges.awaitCommit("hello", commit("1"))
	between.answers.awaitCommit("hello", commit("1"))
	_, door := deliveryv1connect.NewDeliveryServiceHandler(between)
	one := w.poller(w.serve(door).url)
	await.True(w.t, "it has the first commit", func() bool { return one.at("hello") == commit("1") })

	second.consoleServer.stop()
	w.git.commit(t, commit("2"), "apps/hello", "two")
	w.console.Put(shop("HEAD", commit("2")))
	between.await("is about the commit that it was nudged for",
		func(req *deliveryv1.SyncRequest) bool { return req.GetNudged() == w.console.Revision() })
	if one.at("hello") != commit("1") {
		t.Fatal("the replica that answers is not behind")
	}
	second.consoleServer.start()
	await.True(w.t, "it has the second commit", func() bool { return one.at("hello") == commit("2") })
}

// balancer has agents nudged by one distributor and answered by another.
type balancer struct {
	deliveryv1connect.UnimplementedDeliveryServiceHandler

	nudges, answers *agent
	answered        chan *deliveryv1.SyncRequest
}

func (b *balancer) Sync(ctx context.Context, req *deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
	defer func() { b.answered <- req }()
	return b.answers.rpc.Sync(ctx, req)
}

func (b *balancer) Watch(ctx context.Context, req *deliveryv1.WatchRequest,
	out *connect.ServerStream[deliveryv1.WatchResponse],
) error {
	in, err := b.nudges.rpc.Watch(ctx, req)
	if err != nil {
		return err
	}
	defer in.Close()
	for in.Receive() {
		if err := out.Send(in.Msg()); err != nil {
			return err
		}
	}
	return in.Err()
}

// await waits for the end of a Sync.
func (b *balancer) await(what string, ok func(*deliveryv1.SyncRequest) bool) {
	t := b.nudges.t
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case req := <-b.answered:
			if ok(req) {
				return
			}
		case <-timeout:
			t.Fatal("there was no Sync that " + what)
		}
	}
}

// polling is what an agent has that polls as agents do.
type polling struct {
	mu  sync.Mutex // guards got
	got map[string]*deliveryv1.ServiceDelivery
}

// poller runs the agents' own client until the test ends.
func (w *world) poller(url string) *polling {
	w.t.Helper()
	one := &polling{got: map[string]*deliveryv1.ServiceDelivery{}}
	distributors := deliveryclient.New(w.client, nil, client.Options()...)
	distributors.Set([]string{url})
	p := deliveryclient.NewPoller(deliveryclient.PollDeps{
		Distributors: distributors, Wanted: one, KubernetesVersion: func() string { return "v1.36" },
		AgentVersion: "v1",
		Tracer:       noop.NewTracerProvider().Tracer(""), Metrics: prometheus.NewRegistry(),
		Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) })
	running.Go(func() { _ = p.Watch(ctx) })
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return one
}

// at is the commit that a service was delivered at.
func (p *polling) at(service string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.got[service].GetRevision().GetCommit()
}

// Have implements deliveryclient.Wanted.
func (p *polling) Have() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := map[string]string{}
	for name, s := range p.got {
		have[name] = s.GetDigest()
	}
	return have
}

// Take implements deliveryclient.Wanted.
func (p *polling) Take(changes *deliveryv1.Changes, _ int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range changes.GetServices() {
		p.got[s.GetName()] = s
	}
	return nil
}

// Revision implements deliveryclient.Wanted.
func (p *polling) Revision() int64 { return 0 }
