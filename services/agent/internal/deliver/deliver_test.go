package deliver_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/durationpb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/delivery"
	"fairlead.dev/platform/deliveryclient"
	"fairlead.dev/services/agent/internal/deliver"
	"fairlead.dev/services/agent/internal/desired"
)

// patience is how long what has to happen may take on a machine that is busy.
const patience = 5 * time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// distributor answers Sync as a test says, and hands the requests over.
type distributor struct {
	deliveryv1connect.UnimplementedDeliveryServiceHandler

	mu       sync.Mutex // guards answer
	answer   func(*deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error)
	requests chan *deliveryv1.SyncRequest
	watch    chan *deliveryv1.WatchResponse
	watched  chan struct{}
}

func (d *distributor) Sync(_ context.Context, r *deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case d.requests <- r:
	default:
	}
	return d.answer(r)
}

func (d *distributor) Watch(ctx context.Context, _ *deliveryv1.WatchRequest,
	stream *connect.ServerStream[deliveryv1.WatchResponse],
) error {
	d.watched <- struct{}{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-d.watch:
			if err := stream.Send(event); err != nil {
				return err
			}
		}
	}
}

func serve(t *testing.T, answer func(*deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error)) (*distributor, string) {
	t.Helper()
	d := &distributor{
		answer: answer, requests: make(chan *deliveryv1.SyncRequest, 100),
		watch: make(chan *deliveryv1.WatchResponse), watched: make(chan struct{}, 100),
	}
	mux := http.NewServeMux()
	mux.Handle(deliveryv1connect.NewDeliveryServiceHandler(d))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return d, server.URL
}

func notModified(next time.Duration) *deliveryv1.SyncResponse {
	return &deliveryv1.SyncResponse{Result: &deliveryv1.SyncResponse_NotModified{NotModified: &deliveryv1.NotModified{}}, NextPoll: durationpb.New(next)}
}

func run(t *testing.T, store *desired.Store, orphans []string, urls ...string) *deliveryclient.Poller {
	t.Helper()
	return runOver(t, store, map[string]string{}, orphans, urls...)
}

// runOver runs a poller over a cluster that has services with these digests.
func runOver(t *testing.T, store *desired.Store, applied map[string]string, orphans []string, urls ...string) *deliveryclient.Poller {
	t.Helper()
	distributors := deliveryclient.New(&http.Client{Transport: &http.Transport{}}, nil)
	distributors.Set(urls)
	p := deliver.New(deliver.Deps{
		Distributors: distributors, Desired: store, Orphans: func() []string { return orphans },
		Applied: func(service string) string { return applied[service] }, KubernetesVersion: func() string { return "v1" }, AgentVersion: "dev",
		Tracer: noop.NewTracerProvider().Tracer(""), Metrics: prometheus.NewRegistry(),
		Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) })
	running.Go(func() { _ = p.Watch(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return p
}

func newStore(t *testing.T) *desired.Store {
	t.Helper()
	store, err := desired.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func next(t *testing.T, requests <-chan *deliveryv1.SyncRequest) *deliveryv1.SyncRequest {
	t.Helper()
	select {
	case request := <-requests:
		return request
	case <-time.After(patience):
		t.Fatal("no Sync came")
		return nil
	}
}

func TestPlainPollSendsTheDigestOnlyAndANudgeSendsAll(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if err := store.Update([]desired.Service{{Name: "a", Digest: "1"}}, nil, 0); err != nil {
		t.Fatal(err)
	}
	d, url := serve(t, func(*deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) { return notModified(time.Hour), nil })
	run(t, store, nil, url)
	plain := next(t, d.requests)
	if plain.GetDigest() != delivery.SetDigest(map[string]string{"a": "1"}) || len(plain.GetHave()) > 0 ||
		plain.GetAgent().GetKubernetesVersion() != "v1" {
		t.Errorf("plain poll: %v", plain)
	}
	d.watch <- &deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_Heartbeat{Heartbeat: &deliveryv1.Heartbeat{}}}
	if again := next(t, d.requests); len(again.GetHave()) > 0 {
		t.Errorf("after the stream opened: %v", again)
	}
	d.watch <- &deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_Nudge{Nudge: &deliveryv1.Nudge{}}}
	if nudged := next(t, d.requests); len(nudged.GetHave()) != 1 || nudged.GetHave()[0].GetDigest() != "1" {
		t.Errorf("after a nudge: %v", nudged)
	}
}

// An agent says to any distributor what it has seen of the catalog, also after a restart.
func TestRevisionOfTheLastAnswerIsSaid(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	var answers atomic.Int64
	d, url := serve(t, func(*deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
		resp := notModified(time.Second)
		switch answers.Add(1) {
		case 1:
			resp.Revision = 7
			resp.Result = &deliveryv1.SyncResponse_Changes{Changes: &deliveryv1.Changes{Removed: []string{"gone"}}}
		case 2:
			resp.Revision = 9
		}
		return resp, nil // behind, from the third on
	})
	run(t, store, nil, url)
	for i, want := range []int64{0, 7, 9, 9} {
		if got := next(t, d.requests).GetRevision(); got != want {
			t.Errorf("request %d says %d, want %d", i, got, want)
		}
	}
	if store.Revision() != 7 {
		t.Errorf("kept is %d", store.Revision())
	}
}

// An agent says what it was nudged for until a distributor has heard of that, for another one may answer.
func TestWhatANudgeIsForIsSaidUntilAnAnswerIsAsNew(t *testing.T) {
	t.Parallel()
	const nudged = 7
	var knows atomic.Bool
	d, url := serve(t, func(r *deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
		resp := notModified(time.Second)
		resp.Revision = nudged - 1
		if knows.Load() {
			resp.Revision = nudged
		}
		return resp, nil
	})
	run(t, newStore(t), nil, url)
	if first := next(t, d.requests).GetNudged(); first != 0 {
		t.Errorf("says %d before the first nudge", first)
	}
	d.watch <- &deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_Nudge{Nudge: &deliveryv1.Nudge{Revision: nudged}}}
	for times := 0; times < 2; {
		if next(t, d.requests).GetNudged() == nudged {
			times++
		}
	}
	knows.Store(true)
	for next(t, d.requests).GetNudged() != 0 {
	}
}

func TestNextPollIsHonoured(t *testing.T) {
	t.Parallel()
	d, url := serve(t, func(*deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) { return notModified(time.Second), nil })
	begin := time.Now()
	run(t, newStore(t), nil, url)
	for range 3 {
		next(t, d.requests)
	}
	if took := time.Since(begin); took < 1700*time.Millisecond {
		t.Errorf("three polls a second apart took %s", took)
	}
}

func TestAnotherDistributorIsAskedWhenOneFails(t *testing.T) {
	t.Parallel()
	down, downURL := serve(t, func(*deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("no catalog yet"))
	})
	up, upURL := serve(t, func(*deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) { return notModified(time.Hour), nil })
	for range 8 { // an agent begins with any of them
		if p := run(t, newStore(t), nil, downURL, upURL); p == nil {
			t.Fatal("no poller")
		}
		next(t, up.requests)
	}
	if len(down.requests) == 0 {
		t.Error("no agent ever began with the one that was down")
	}
}

func TestUnknownClusterKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if err := store.Update([]desired.Service{{Name: "a", Digest: "1"}}, nil, 0); err != nil {
		t.Fatal(err)
	}
	d, url := serve(t, func(*deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("no such cluster"))
	})
	p := run(t, store, nil, url)
	next(t, d.requests)
	next(t, d.requests) // the poller asks again
	if _, want := store.Get("a"); want != desired.Apply || p.Synced() {
		t.Errorf("want %v, synced %v", want, p.Synced())
	}
}

func TestServicesOfALostDiskAreAskedFor(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	d, url := serve(t, func(r *deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
		if len(r.GetHave()) == 0 {
			return &deliveryv1.SyncResponse{Result: &deliveryv1.SyncResponse_HaveWanted{HaveWanted: &deliveryv1.HaveWanted{}}}, nil
		}
		return &deliveryv1.SyncResponse{
			NextPoll: durationpb.New(time.Hour),
			Result: &deliveryv1.SyncResponse_Changes{Changes: &deliveryv1.Changes{Removed: []string{
				"orphan",
				"../../etc",
			}}},
		}, nil
	})
	run(t, store, []string{"orphan"}, url)
	next(t, d.requests)
	if have := next(t, d.requests).GetHave(); len(have) != 1 || have[0].GetService() != "orphan" ||
		have[0].GetDigest() != "" {
		t.Errorf("have %v", have)
	}
	select {
	case <-store.Changed():
	case <-time.After(patience):
		t.Fatal("nothing changed")
	}
	if names := store.Names(); !slices.Equal(names, []string{"orphan"}) {
		t.Errorf("got %v", names)
	}
}

// An agent that takes over from another one hears of what the cluster has from any distributor, and of anything else
// from one that is not behind.
func TestADoubtedServiceIsWantedAsAnyDistributorSaysOnlyIfTheClusterHasIt(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if err := store.Update([]desired.Service{{Name: "same", Digest: "1"}, {Name: "moved", Digest: "1"}, {Name: "left", Digest: "1"}}, nil, 3); err != nil {
		t.Fatal(err)
	}
	cluster := map[string]string{"same": "1", "moved": "2"}
	if err := store.Doubt([]string{"same", "moved", "half", "left"}, 7); err != nil {
		t.Fatal(err)
	}
	isBehind := atomic.Bool{}
	isBehind.Store(true)
	d, url := serve(t, func(r *deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
		if len(r.GetHave()) == 0 {
			return &deliveryv1.SyncResponse{Result: &deliveryv1.SyncResponse_HaveWanted{HaveWanted: &deliveryv1.HaveWanted{}}}, nil
		}
		knows := map[string]string{"same": "1", "moved": "1", "half": "1"}
		if !isBehind.Load() {
			knows = map[string]string{"same": "1", "moved": "3", "half": "3"}
		}
		changes := &deliveryv1.Changes{}
		for _, has := range r.GetHave() {
			switch digest := knows[has.GetService()]; {
			case has.GetDigest() == digest || has.GetDigest() != "" && isBehind.Load():
			case digest != "":
				changes.Services = append(changes.Services, &deliveryv1.ServiceDelivery{
					Name: has.GetService(), Digest: digest,
					Artifact: &artifactv1.Artifact{Digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"},
				})
			case !isBehind.Load():
				changes.Removed = append(changes.Removed, has.GetService())
			}
		}
		if len(changes.GetServices())+len(changes.GetRemoved()) == 0 {
			return notModified(time.Second), nil
		}
		return &deliveryv1.SyncResponse{
			Result: &deliveryv1.SyncResponse_Changes{Changes: changes}, NextPoll: durationpb.New(time.Second),
		}, nil
	})
	runOver(t, store, cluster, []string{"same", "moved", "half", "left"}, url)
	have := func() map[string]string {
		for {
			request := next(t, d.requests)
			if request.GetRevision() != 7 {
				t.Errorf("the agent says that it has heard of change %d", request.GetRevision())
			}
			if len(request.GetHave()) > 0 {
				has := map[string]string{}
				for _, one := range request.GetHave() {
					has[one.GetService()] = one.GetDigest()
				}
				return has
			}
		}
	}
	for i, want := range []map[string]string{
		{"same": "", "moved": "", "half": "", "left": ""},
		{"same": "1", "moved": "2", "half": "unknown", "left": "unknown"},
		{"same": "1", "moved": "", "half": "", "left": ""},
		{"same": "1", "moved": "2", "half": "unknown", "left": "unknown"},
		{"same": "1", "moved": "", "half": "", "left": ""},
	} {
		if has := have(); !maps.Equal(has, want) {
			t.Errorf("question %d says that the cluster has %v, want %v", i+1, has, want)
		}
	}
	for name, want := range map[string]desired.Want{
		"same": desired.Apply, "moved": desired.Nothing, "half": desired.Nothing, "left": desired.Nothing,
	} {
		if _, is := store.Get(name); is != want {
			t.Errorf("of %s is wanted %v while the distributor is behind, want %v", name, is, want)
		}
	}
	isBehind.Store(false)
	await.True(t, "all are told", func() bool { return len(store.Doubted()) == 0 })
	for name, want := range map[string]string{"same": "1", "moved": "3", "half": "3"} {
		if is, _ := store.Get(name); is.Digest != want {
			t.Errorf("%s is wanted as %q, want %q", name, is.Digest, want)
		}
	}
	if _, is := store.Get("left"); is != desired.Remove {
		t.Errorf("of a service that the hub has no more is wanted %v", is)
	}
}

func TestDeliveryThatMakesNoSenseIsLeftOut(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	good := &artifactv1.Artifact{Digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
	_, url := serve(t, func(*deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
		return &deliveryv1.SyncResponse{NextPoll: durationpb.New(time.Hour), Result: &deliveryv1.SyncResponse_Changes{Changes: &deliveryv1.Changes{Services: []*deliveryv1.ServiceDelivery{
			{Name: "../x", Digest: "1", Artifact: good},
			{Name: "nodigest", Artifact: good},
			{Name: "badartifact", Digest: "1", Artifact: &artifactv1.Artifact{Digest: "sha256:../../x"}},
			{Name: "badnamespace", Digest: "1", Namespace: "a/b", Artifact: good},
			{Name: "good", Digest: "1", Artifact: good},
		}}}}, nil
	})
	run(t, store, nil, url)
	select {
	case <-store.Changed():
	case <-time.After(patience):
		t.Fatal("nothing changed")
	}
	if names := store.Names(); !slices.Equal(names, []string{"good"}) {
		t.Errorf("got %v", names)
	}
	if good, _ := store.Get("good"); good.Namespace != "default" {
		t.Errorf("namespace %q", good.Namespace)
	}
}

func TestGoAwayOpensTheStreamAnew(t *testing.T) {
	t.Parallel()
	d, url := serve(t, func(*deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) { return notModified(time.Hour), nil })
	run(t, newStore(t), nil, url)
	<-d.watched
	d.watch <- &deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_GoAway{GoAway: &deliveryv1.GoAway{}}}
	select {
	case <-d.watched:
	case <-time.After(patience):
		t.Fatal("the stream was not opened again")
	}
}
