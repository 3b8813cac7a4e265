package rpc_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/delivery"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/distributor/internal/hold"
	"fairlead.dev/services/distributor/internal/nudge"
	"fairlead.dev/services/distributor/internal/observe"
	"fairlead.dev/services/distributor/internal/plan"
	"fairlead.dev/services/distributor/internal/rpc"
	"fairlead.dev/services/distributor/internal/status"
)

// wire is a network without sockets, so that a whole server lives in a synctest bubble.
type wire struct{ conns chan net.Conn }

func (w wire) Accept() (net.Conn, error) {
	c, ok := <-w.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (w wire) Close() error   { return nil }
func (w wire) Addr() net.Addr { return &net.TCPAddr{} }

func (w wire) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	w.conns <- far
	return near, nil
}

// deps are those of a distributor with one cluster, which is meant to have nothing.
func deps(t *testing.T) rpc.Deps {
	t.Helper()
	p := plan.New(plan.Memory{})
	p.Update(time.Now().Add(-time.Hour), func(u *plan.Update) {
		u.Cluster("edge-1", true)
		u.Loaded()
	})
	hub := nudge.New(func() float64 { return 0 })
	metrics, err := observe.New(prometheus.NewRegistry(), observe.State{
		Store: func() artifact.Stats { return artifact.Stats{} }, Plan: p.Counts, Watchers: hub.Watchers,
		Stale: func() (time.Time, bool) { return time.Now(), false },
	})
	if err != nil {
		t.Fatal(err)
	}
	return rpc.Deps{
		Plan: p, Stale: func() (time.Time, bool) { return time.Now(), false }, Confirmed: time.Now, Nudges: hub,
		Metrics: metrics, NextPoll: 2 * time.Minute, Pressure: func() float64 { return 0 },
		Hold: hold.New(nil, func() catalog.Removals { return catalog.Removals{} }, p.Has, nil),
		Seen: status.NewSeen(nobody{}, nil), Reports: status.NewReports(nobody{}, hub, nil),
	}
}

// asAgent is the context of the cluster's agent.
func asAgent(ctx context.Context) context.Context {
	return identity.NewContext(ctx, identity.Identity{Kind: identity.KindAgent, Name: "edge-1"})
}

func handler(t *testing.T) (http.Handler, *nudge.Nudger) {
	t.Helper()
	d := deps(t)
	confirm(d.Plan)
	_, h := deliveryv1connect.NewDeliveryServiceHandler(rpc.NewDelivery(d))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r.WithContext(asAgent(r.Context()))) }), d.Nudges
}

// nobody is a console that is not called.
type nobody struct{}

var errNobody = errors.New("nobody")

func (nobody) RecordReports(context.Context, *consolev1.RecordReportsRequest) (*consolev1.RecordReportsResponse, error) {
	return nil, errNobody
}

func (nobody) RecordHub(context.Context, *consolev1.RecordHubRequest) (*consolev1.RecordHubResponse, error) {
	return nil, errNobody
}

func (nobody) RecordSeen(context.Context, *consolev1.RecordSeenRequest) (*consolev1.RecordSeenResponse, error) {
	return nil, errNobody
}

func TestStreamBeatsAndEndsItselfInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, hub := handler(t)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { _ = hub.Run(ctx) }() // ends with ctx
		defer cancel()
		network := wire{conns: make(chan net.Conn)}
		srv := &http.Server{Handler: h}
		go func() { _ = srv.Serve(network) }()
		transport := &http.Transport{DialContext: network.dial}
		client := deliveryv1connect.NewDeliveryServiceClient(&http.Client{Transport: transport}, "http://edge")
		begun := time.Now()
		stream, err := client.Watch(context.Background(), &deliveryv1.WatchRequest{})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Sync(context.Background(), &deliveryv1.SyncRequest{})
		if err != nil {
			t.Fatal(err)
		}
		beats, turns, last, away := 0, 0, begun, false
		for stream.Receive() {
			if away {
				t.Error("something after GoAway")
			}
			if gap := time.Since(last); gap > nudge.Beat+time.Second {
				t.Errorf("silent for %s", gap)
			}
			last = time.Now()
			switch {
			case stream.Msg().GetHeartbeat() != nil:
				if beats++; beats == 2 {
					hub.ReportTurn("edge-1")
				}
				if beats > 1 && stream.Msg().GetHeartbeat().GetWanted() != answer.GetNotModified().GetWanted() {
					t.Errorf("heartbeat %d: %v, after %v", beats, stream.Msg(), answer)
				}
			case stream.Msg().GetReportTurn() != nil:
				turns++
			case stream.Msg().GetGoAway() != nil:
				away = true
			default:
				t.Error("a nudge for nothing") // the last change is an hour old
			}
		}
		life := time.Since(begun)
		if turns != 1 {
			t.Errorf("%d turns to report", turns)
		}
		if stream.Err() != nil || !away || life < 20*time.Minute || life > 40*time.Minute || beats < 25 {
			t.Errorf("%d beats in %s, said goodbye %v: %v", beats, life, away, stream.Err())
		}
		if hub.Watchers() != 0 {
			t.Error("the watcher stays")
		}
		_ = stream.Close()
		transport.CloseIdleConnections()
		close(network.conns)
		_ = srv.Close()
		synctest.Wait()
	})
}

// A process that is busy is asked up to half as often, and what has not changed is said in a few bytes.
func TestUnchangedIsSaidInAFewBytesAndLessOftenUnderPressure(t *testing.T) {
	t.Parallel()
	for pressure, mean := range map[float64]time.Duration{
		0: 2 * time.Minute, 0.5: 3 * time.Minute,
		1: 4 * time.Minute,
	} {
		with := deps(t)
		with.Pressure = func() float64 { return pressure }
		confirm(with.Plan)
		d := rpc.NewDelivery(with)
		told := map[time.Duration]bool{}
		for range 100 {
			resp, err := d.Sync(asAgent(t.Context()), &deliveryv1.SyncRequest{})
			if err != nil || resp.GetNotModified() == nil {
				t.Fatalf("got %v, %v", resp, err)
			}
			next := resp.GetNextPoll().AsDuration()
			if told[next] = true; next < mean*9/10 || next > mean*11/10 {
				t.Fatalf("pressure %v: next poll in %s", pressure, next)
			}
			if n := proto.Size(resp); n > 45 || resp.GetNotModified().GetWanted() == 0 {
				t.Fatalf("%d bytes: %v", n, resp)
			}
		}
		if len(told) < 50 {
			t.Errorf("pressure %v: %d different polls of 100", pressure, len(told))
		}
	}
}

// confirm has a plan be made from a catalog that the console has confirmed.
func confirm(p *plan.Plan) {
	p.Update(time.Now().Add(-time.Hour), func(u *plan.Update) {
		u.AgentConfigs(nil)
		u.ViewSets(nil)
		u.Current()
	})
}

// What an answer and the heartbeats after it say together is that there is nothing to ask for: only if that is so.
func TestNothingNewIsNamedOnlyWhereThatIsCertain(t *testing.T) {
	t.Parallel()
	with := deps(t)
	stale := false
	with.Stale = func() (time.Time, bool) { return time.Now(), stale }
	d := rpc.NewDelivery(with)
	named := func(req *deliveryv1.SyncRequest) uint64 {
		t.Helper()
		resp, err := d.Sync(asAgent(t.Context()), req)
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetNotModified().GetWanted()
	}
	all := &deliveryv1.SyncRequest{}
	if named(all) != 0 {
		t.Error("named from a catalog that nobody has confirmed")
	}
	confirm(with.Plan)
	first := named(all)
	if first == 0 || first != named(all) {
		t.Errorf("named %d", first)
	}
	if named(&deliveryv1.SyncRequest{Digest: delivery.SetDigest(map[string]string{"old": "d"})}) != 0 {
		t.Error("named to an agent that has something else")
	}
	if named(&deliveryv1.SyncRequest{Revision: 1 << 40}) != 0 {
		t.Error("named to an agent that has heard of a newer catalog")
	}
	stale = true
	if named(all) != 0 {
		t.Error("named while the catalog may be behind")
	}
	stale = false
	config := []*consolev1.AgentConfig{{Metadata: &consolev1.Metadata{Name: "all"}, Spec: &consolev1.AgentConfigSpec{Clusters: &consolev1.ClusterSelector{All: true}}}}
	with.Plan.Update(time.Now(), func(u *plan.Update) { u.AgentConfigs(config) })
	if again := named(all); again == 0 || again == first {
		t.Errorf("another configuration has the name %d", again)
	}
	with.NextPoll = 20 * time.Second
	d = rpc.NewDelivery(with)
	if named(all) != 0 {
		t.Error("named to an agent that asks more often than it hears a heartbeat")
	}
}

// viewless is a console that has lost all views.
type viewless struct{ nobody }

func (viewless) RecordSeen(_ context.Context, req *consolev1.RecordSeenRequest) (*consolev1.RecordSeenResponse, error) {
	var resp consolev1.RecordSeenResponse
	for _, c := range req.GetClusters() {
		resp.ViewsWanted = append(resp.ViewsWanted, c.GetCluster())
	}
	return &resp, nil
}

// The agent of a view that is lost has to ask, to hear of it.
func TestALostViewIsSomethingNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		with := deps(t)
		confirm(with.Plan)
		with.Seen = status.NewSeen(viewless{}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(asAgent(context.Background()))
		done := make(chan error, 1)
		go func() { done <- with.Seen.Run(ctx) }()
		d := rpc.NewDelivery(with)
		poll := &deliveryv1.SyncRequest{View: &deliveryv1.ViewState{Term: 1, Sequence: 1}}
		var named []bool
		for range 2 {
			resp, err := d.Sync(ctx, poll)
			if err != nil || resp.GetNotModified() == nil {
				t.Fatalf("got %v, %v", resp, err)
			}
			named = append(named, resp.GetNotModified().GetWanted() != 0)
			synctest.Wait() // the console says that it lacks the view
		}
		if !named[0] || named[1] {
			t.Errorf("named %v", named)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// stuck is a console that takes reports and never answers.
type stuck struct{ nobody }

func (stuck) RecordReports(ctx context.Context, _ *consolev1.RecordReportsRequest) (*consolev1.RecordReportsResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// However many reports wait for a console that does not answer: a Sync waits for none of them.
func TestStormOfReportsHoldsNoSyncUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		with := deps(t)
		with.Reports = status.NewReports(stuck{}, with.Nudges, slog.New(slog.DiscardHandler))
		d := rpc.NewDelivery(with)
		ctx, cancel := context.WithCancel(asAgent(context.Background()))
		var all sync.WaitGroup
		all.Go(func() { _ = with.Reports.Run(ctx) }) // ends with ctx
		var ended atomic.Int64
		const storm = 10_000
		for range storm {
			all.Go(func() {
				_, err := d.Report(ctx, &deliveryv1.ReportRequest{Reports: []*deliveryv1.ServiceReport{{Service: "hello", Sequence: 1}}})
				if err == nil {
					t.Error("acknowledged by nobody")
				}
				ended.Add(1)
			})
		}
		synctest.Wait()
		if n := ended.Load(); n == 0 || n == storm {
			t.Fatalf("of %d reports %d were turned away: this test shows nothing", storm, n)
		}
		begun := time.Now()
		for range 1000 {
			if resp, err := d.Sync(ctx, &deliveryv1.SyncRequest{}); err != nil || resp.GetNotModified() == nil {
				t.Fatalf("got %v, %v", resp, err)
			}
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("1,000 Syncs waited for %s", waited)
		}
		cancel()
		all.Wait()
	})
}

// An agent that gets something from a busy hub keeps its progress back.
func TestABusyHubAsksForLessProgress(t *testing.T) {
	t.Parallel()
	for pressure, want := range map[float64]time.Duration{0: 0, 0.05: 0, 0.2: 3 * time.Second, 1: 15 * time.Second} {
		with := deps(t)
		with.Pressure = func() float64 { return pressure }
		with.Tickets.Secret = hubsecret.Text("secret")
		with.Plan.Update(time.Now(), func(u *plan.Update) { u.Current() })
		d := rpc.NewDelivery(with)
		resp, err := d.Sync(asAgent(t.Context()), &deliveryv1.SyncRequest{Digest: delivery.SetDigest(map[string]string{"old": "d"}), Have: []*deliveryv1.ServiceDigest{{Service: "old", Digest: "d"}}})
		if err != nil || resp.GetChanges() == nil {
			t.Fatalf("got %v, %v", resp, err)
		}
		if got := resp.GetProgressHold().AsDuration(); got != want {
			t.Errorf("pressure %v: %s, want %s", pressure, got, want)
		}
		resp, err = d.Sync(asAgent(t.Context()), &deliveryv1.SyncRequest{})
		if err != nil || resp.GetNotModified() == nil || resp.ProgressHold != nil {
			t.Errorf("pressure %v: got %v, %v for nothing new", pressure, resp, err)
		}
	}
}
