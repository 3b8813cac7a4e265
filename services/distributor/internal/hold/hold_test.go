package hold_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/distributor/internal/hold"
	"fairlead.dev/services/distributor/internal/plan"
)

// console notes what it is told.
type console chan *consolev1.ClusterHeld

func (c console) RecordHeld(_ context.Context, req *consolev1.RecordHeldRequest) (*consolev1.RecordHeldResponse, error) {
	for _, cluster := range req.GetClusters() {
		c <- cluster
	}
	return &consolev1.RecordHeldResponse{}, nil
}

func (c console) await(t *testing.T, cluster string, services ...string) {
	t.Helper()
	select {
	case told := <-c:
		if told.GetCluster() != cluster || !slices.Equal(told.GetServices(), services) {
			t.Fatalf("told %v, want %s %v", told, cluster, services)
		}
	case <-time.After(time.Minute):
		t.Fatal("the console is not told")
	}
}

// said is what the console said last of removals; for one goroutine.
func start(t *testing.T, said *catalog.Removals) (*hold.Gate, console) {
	t.Helper()
	told := make(console, 10)
	g := hold.New(told, func() catalog.Removals { return *said }, madeAgain, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return g, told
}

// madeAgain is what the catalog has.
func madeAgain(_, service string) bool { return service == "made-again" }

func removes(services ...string) plan.Difference {
	return plan.Difference{Removed: services, Revision: 7}
}

func TestNothingIsRemovedWhileTheConsoleHoldsRemovals(t *testing.T) {
	t.Parallel()
	said := catalog.Removals{Held: true, Known: true}
	g, told := start(t, &said)
	changed := plan.Difference{Removed: []string{"new"}, Changed: []*plan.Delivery{{Service: "web"}}, Revision: 7}
	if d := g.Pass("edge-1", changed, false); len(d.Removed) > 0 || d.None || len(d.Changed) != 1 || d.Revision != 7 {
		t.Errorf("got %+v", d)
	}
	told.await(t, "edge-1", "new")
	if d := g.Pass("edge-2", removes("a", "b"), false); !d.None || d.Revision != 7 || len(d.Removed) > 0 {
		t.Errorf("got %+v", d)
	}
	told.await(t, "edge-2", "a", "b")
	g.Pass("edge-2", removes("b"), false) // the other one was made again
	told.await(t, "edge-2", "b")
	g.Pass("edge-2", plan.Difference{None: true}, false)
	told.await(t, "edge-2")

	said = catalog.Removals{Known: true, Confirmation: "c1"}
	if released := g.Changed(); len(released) != 1 {
		t.Errorf("released are %v", released)
	}
	if d := g.Pass("edge-1", removes("new"), false); !slices.Equal(d.Removed, []string{"new"}) || d.Revision != 7 {
		t.Errorf("after the confirmation: %+v", d)
	}
	told.await(t, "edge-1")
}

func TestAnAgentThatKnowsMoreThanTheCatalogKeepsItUntilAPersonConfirms(t *testing.T) {
	t.Parallel()
	said := catalog.Removals{Known: true, Confirmation: "c1"}
	g, told := start(t, &said)
	if d := g.Pass("edge-1", removes("new"), true); !d.None || d.Revision != 0 || len(d.Removed) > 0 {
		t.Errorf("got %+v", d)
	}
	told.await(t, "edge-1", "new")
	if d := g.Pass("edge-2", removes("old"), false); len(d.Removed) != 1 {
		t.Errorf("what one agent claims counts for another: %+v", d)
	}
	if d := g.Pass("edge-1", removes("new"), false); len(d.Removed) > 0 { // the log has grown past what it claimed
		t.Errorf("forgotten: %+v", d)
	}
	said.Confirmation = "c2"
	if d := g.Pass("edge-1", removes("new"), true); len(d.Removed) != 1 {
		t.Errorf("after the confirmation: %+v", d)
	}
}

// An agent that lost its disk has nothing at first, and finds later what is in its cluster.
func TestAClaimOutlivesTheDiskOfTheAgentThatMadeIt(t *testing.T) {
	t.Parallel()
	said := catalog.Removals{Known: true, Confirmation: "c1"}
	g, told := start(t, &said)
	g.Pass("edge-1", removes("new", "newer"), true)
	told.await(t, "edge-1", "new", "newer")
	again := plan.Difference{Changed: []*plan.Delivery{{Service: "web"}}, Revision: 7}
	if d := g.Pass("edge-1", again, false); len(d.Changed) != 1 || d.Revision != 7 {
		t.Errorf("an agent that has nothing gets %+v", d)
	}
	if d := g.Pass("edge-1", removes("new"), false); !d.None || len(d.Removed) > 0 {
		t.Errorf("forgotten: %+v", d)
	}
	g.Pass("edge-1", removes("new", "other"), false)
	told.await(t, "edge-1", "new", "newer", "other") // and what a person was shown stays in sight
	said.Confirmation = "c2"
	if d := g.Pass("edge-1", removes("new", "newer"), false); len(d.Removed) != 2 || d.Revision != 7 {
		t.Errorf("after the confirmation: %+v", d)
	}
	told.await(t, "edge-1")
}

// A distributor that never saw the claim, since it has restarted or another one answered before, knows of it by the
// console.
func TestAClaimThatAnotherDistributorSawCounts(t *testing.T) {
	t.Parallel()
	said := catalog.Removals{Known: true, Confirmation: "c1", Waiting: &catalog.Waiting{"edge-1": {}}}
	g, told := start(t, &said)
	g.Pass("edge-1", plan.Difference{None: true}, false) // an agent that lost its disk: the console is told nothing
	if d := g.Pass("edge-2", removes("old"), false); len(d.Removed) != 1 {
		t.Errorf("what waits in one cluster waits in another: %+v", d)
	}
	told.await(t, "edge-2")
	if d := g.Pass("edge-1", removes("new"), false); !d.None || len(d.Removed) > 0 {
		t.Errorf("got %+v", d)
	}
	told.await(t, "edge-1", "new")
	said = catalog.Removals{Known: true, Confirmation: "c1"} // of several consoles one may be older
	if d := g.Pass("edge-1", removes("new"), false); len(d.Removed) > 0 {
		t.Errorf("forgotten: %+v", d)
	}
	said = catalog.Removals{Known: true, Confirmation: "c2"}
	if d := g.Pass("edge-1", removes("new"), false); len(d.Removed) != 1 {
		t.Errorf("after the confirmation: %+v", d)
	}
}

// With the last service that the catalog lacked the doubt is over: what is deleted later goes.
func TestAClaimEndsWhenAllThatItHeldIsMadeAgain(t *testing.T) {
	t.Parallel()
	said := catalog.Removals{Known: true, Confirmation: "c1"}
	g, told := start(t, &said)
	g.Pass("edge-1", removes("made-again", "new"), true)
	told.await(t, "edge-1", "made-again", "new")
	g.Pass("edge-1", removes("new"), false)
	told.await(t, "edge-1", "new")
	g.Pass("edge-2", removes("made-again"), true)
	told.await(t, "edge-2", "made-again")
	g.Pass("edge-2", plan.Difference{None: true, Same: true}, false)
	told.await(t, "edge-2")
	if d := g.Pass("edge-2", removes("web"), false); len(d.Removed) != 1 {
		t.Errorf("after all was made again: %+v", d)
	}
}

// A removal that waits for content is none yet, and the claim has to last until then.
func TestAnAgentKeepsItsClaimWhileContentIsAskedFor(t *testing.T) {
	t.Parallel()
	said := catalog.Removals{Known: true, Confirmation: "c1"}
	g, _ := start(t, &said)
	pending := plan.Difference{None: true, Pending: true, Revision: 7}
	if d := g.Pass("edge-1", pending, true); d.Revision != 0 {
		t.Errorf("the agent forgets what it has seen: %+v", d)
	}
	if d := g.Pass("edge-2", pending, false); d.Revision != 7 {
		t.Errorf("an agent without a claim gets %+v", d)
	}
	g.Pass("edge-1", removes("new"), true)
	if d := g.Pass("edge-1", pending, true); d.Revision != 0 {
		t.Errorf("the agent forgets what it has seen: %+v", d)
	}
	said.Confirmation = "c2"
	if d := g.Pass("edge-1", pending, true); d.Revision != 7 {
		t.Errorf("the claim outlives the confirmation: %+v", d)
	}
}

// A confirmation ends the hold for all that a person was shown, and nothing else.
func TestWhatTheConsoleHoldsStaysInSightWhileContentIsAskedFor(t *testing.T) {
	t.Parallel()
	said := catalog.Removals{Held: true, Known: true}
	first, told := start(t, &said)
	second, toldToo := start(t, &said)
	first.Pass("edge-1", removes("made-again", "new"), false)
	told.await(t, "edge-1", "made-again", "new")
	pending := plan.Difference{None: true, Pending: true, Revision: 7}
	if d := first.Pass("edge-1", pending, false); !d.None || d.Revision != 7 {
		t.Errorf("got %+v", d)
	}
	told.await(t, "edge-1", "new")
	second.Pass("edge-1", pending, false) // a distributor that does not know what is held says nothing of it
	second.Pass("edge-2", removes("b"), false)
	toldToo.await(t, "edge-2", "b")
	said = catalog.Removals{Known: true, Confirmation: "c1"}
	first.Pass("edge-1", pending, false)
	told.await(t, "edge-1")
	if d := first.Pass("edge-1", removes("new"), false); len(d.Removed) != 1 {
		t.Errorf("after the confirmation: %+v", d)
	}
}

// A console that does not know of confirmations could never end it.
func TestAnOlderConsoleIsBelieved(t *testing.T) {
	t.Parallel()
	var said catalog.Removals
	g, _ := start(t, &said)
	if d := g.Pass("edge-1", removes("new"), true); len(d.Removed) != 1 {
		t.Errorf("got %+v", d)
	}
}

// calls notes how much each call tells.
type calls chan int

func (c calls) RecordHeld(_ context.Context, req *consolev1.RecordHeldRequest) (*consolev1.RecordHeldResponse, error) {
	services := 0
	for _, cluster := range req.GetClusters() {
		services += len(cluster.GetServices())
	}
	c <- services
	return &consolev1.RecordHeldResponse{}, nil
}

// A call that is too large for the console would be made again for ever, and a person would confirm what nobody was
// shown.
func TestCallsAreBoundedByWhatTheyTell(t *testing.T) {
	t.Parallel()
	const clusters, each, most = 10, 9000, 20_000
	told := make(calls, clusters)
	g := hold.New(told, func() catalog.Removals { return catalog.Removals{Held: true, Known: true} }, madeAgain,
		slog.New(slog.DiscardHandler))
	services := make([]string, each)
	for i := range services {
		services[i] = fmt.Sprintf("service-%04d", i)
	}
	for i := range clusters {
		g.Pass(fmt.Sprintf("edge-%d", i), removes(services...), false)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	for left := clusters * each; left > 0; {
		select {
		case n := <-told:
			if n > most {
				t.Fatalf("a call tells of %d services", n)
			}
			left -= n
		case <-time.After(time.Minute):
			t.Fatalf("the console is not told of %d services", left)
		}
	}
}

// The console believes whom it was told by last: an agent that comes from another distributor is told of, held or not.
func TestWhatIsHeldIsToldAnewWhenAnAgentMoves(t *testing.T) {
	t.Parallel()
	said := catalog.Removals{Held: true, Known: true}
	first, told := start(t, &said)
	second, toldToo := start(t, &said)
	first.Pass("edge-1", removes("new"), false)
	told.await(t, "edge-1", "new")
	second.Pass("edge-1", plan.Difference{None: true}, false) // the service was made again
	toldToo.await(t, "edge-1")
	first.Moved("edge-1")
	said.Confirmation = "c1"
	first.Changed()
	first.Pass("edge-1", removes("new"), false) // and went again
	told.await(t, "edge-1", "new")
	first.Pass("edge-1", removes("new"), false)
	first.Pass("edge-2", removes("b"), false)
	told.await(t, "edge-2", "b")
}

// strict refuses calls that tell of a bad cluster.
type strict struct{ console }

func (s strict) RecordHeld(ctx context.Context, req *consolev1.RecordHeldRequest) (*consolev1.RecordHeldResponse, error) {
	if slices.ContainsFunc(req.GetClusters(), func(c *consolev1.ClusterHeld) bool { return c.GetCluster() == "bad" }) {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("clusters: too many services"))
	}
	return s.console.RecordHeld(ctx, req)
}

func TestAClusterThatIsRefusedKeepsNoOtherFromBeingTold(t *testing.T) {
	t.Parallel()
	told := make(console, 10)
	g := hold.New(strict{told}, func() catalog.Removals { return catalog.Removals{Held: true, Known: true} }, madeAgain,
		slog.New(slog.DiscardHandler))
	for _, cluster := range []string{"a", "bad", "c"} {
		g.Pass(cluster, removes("new"), false)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	told.await(t, "a", "new")
	told.await(t, "c", "new")
}

// away is a console that takes nothing, and counts how often it is called.
type away struct{ calls atomic.Int32 }

func (a *away) RecordHeld(context.Context, *consolev1.RecordHeldRequest) (*consolev1.RecordHeldResponse, error) {
	a.calls.Add(1)
	return nil, connect.NewError(connect.CodeUnavailable, errors.New("away"))
}

func TestAConsoleThatIsAwayIsNotCalledForEachCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		console := &away{}
		said := catalog.Removals{Held: true, Known: true}
		g := hold.New(console, func() catalog.Removals { return said }, madeAgain, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = g.Run(ctx) }()
		for i := range 100 {
			g.Pass(fmt.Sprint("edge-", i), removes("new"), false)
			synctest.Wait()
		}
		if calls := console.calls.Load(); calls != 1 {
			t.Errorf("%d calls", calls)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if calls := console.calls.Load(); calls < 2 {
			t.Errorf("%d calls after a minute", calls)
		}
	})
}
