package deliveryclient

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
)

// busyHub refuses the first Syncs.
type busyHub struct {
	deliveryv1connect.DeliveryServiceClient

	refuses int
	wanted  uint64 // said with "not modified"
	begin   time.Time
	asked   []time.Duration // since begin
	haves   []bool          // whether a Sync said what the cluster has, as after a nudge
}

func (h *busyHub) Sync(_ context.Context, r *deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
	h.asked, h.haves = append(h.asked, time.Since(h.begin)), append(h.haves, len(r.GetHave()) > 0)
	if len(h.asked) <= h.refuses {
		err := connect.NewError(connect.CodeUnavailable, errors.New("busy"))
		err.Meta().Set("Retry-After", "20")
		return nil, err
	}
	nothing := &deliveryv1.NotModified{Wanted: h.wanted}
	return &deliveryv1.SyncResponse{Result: &deliveryv1.SyncResponse_NotModified{NotModified: nothing}}, nil
}

type oneService struct{}

func (oneService) Have() map[string]string               { return map[string]string{"web": "sha256:x"} }
func (oneService) Take(*deliveryv1.Changes, int64) error { return nil }
func (oneService) Revision() int64                       { return 0 }

// newPoller has one service, and no stream.
func newPoller(h deliveryv1connect.DeliveryServiceClient, kubernetes func() string) *Poller {
	return NewPoller(PollDeps{
		Distributors: &Distributors{list: []Distributor{{URL: "https://hub", RPC: h}}}, Wanted: oneService{},
		KubernetesVersion: kubernetes, Streams: func() bool { return false }, Tracer: noop.NewTracerProvider().Tracer(""),
		Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	})
}

// running runs a new poller until the returned function is called.
func running(t *testing.T, h deliveryv1connect.DeliveryServiceClient, kubernetes func() string) (p *Poller, stop func()) {
	t.Helper()
	p = newPoller(h, kubernetes)
	return p, run(t, p)
}

func run(t *testing.T, p *Poller) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// A hub that is busy nudges all the same. Who came at each nudge would be refused again and again.
func TestANudgeWaitsForTheTimeThatTheHubAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &busyHub{refuses: 1, begin: time.Now()}
		p, stop := running(t, h, func() string { return "" })
		for range 15 {
			<-time.After(time.Second)
			signal(p.nudge, "")
			p.Soon()
		}
		<-time.After(40 * time.Second)
		signal(p.nudge, "")
		<-time.After(time.Second)
		stop()
		if len(h.asked) != 3 || h.asked[1] < 20*time.Second || h.asked[1] > 41*time.Second || !slices.Equal(h.haves, []bool{false, true, true}) {
			t.Errorf("asked after %s, with what the cluster has: %v", h.asked, h.haves)
		}
	})
}

// An answer may make another question due, which does not wait for the next poll. Only then has the hub answered.
func TestTheHubIsAskedOnceMoreAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &busyHub{begin: time.Now()}
		p := newPoller(h, func() string { return "" })
		var synced []bool
		p.Again = func() bool {
			synced = append(synced, p.Synced())
			return len(synced)%2 == 1
		}
		stop := run(t, p)
		<-time.After(time.Second)
		if len(h.asked) != 2 || h.asked[1] != 0 || !p.Synced() {
			t.Errorf("asked after %s, answered: %t", h.asked, p.Synced())
		}
		<-time.After(defaultPoll * 3 / 2)
		stop()
		if len(h.asked) != 4 || h.asked[2] != h.asked[3] || !slices.Equal(synced, []bool{false, false, true, true}) {
			t.Errorf("asked after %s, answered before: %v", h.asked, synced)
		}
	})
}

// The change that a nudge was for may be gone for ever: the database was put back to an earlier state.
func TestANudgeThatNoAnswerIsAsNewAsIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var none *lastNudge
		if got := none.claim(); got != 0 {
			t.Errorf("claims %d without a nudge", got)
		}
		last := &lastNudge{7, time.Now()}
		<-time.After(nudgeTime)
		if got := last.claim(); got != 7 {
			t.Errorf("claims %d within the time", got)
		}
		<-time.After(time.Second)
		if got := last.claim(); got != 0 {
			t.Errorf("claims %d for ever", got)
		}
	})
}

// A stream whose first message is a nudge, and a nudge while a poll is due, are one Sync each: a fleet that comes at
// once has enough of them.
func TestANudgeAndAPollAreOneSync(t *testing.T) {
	t.Parallel()
	for name, wake := range map[string]func(p *Poller){
		"a poll before a nudge": func(p *Poller) { p.Soon(); signal(p.nudge, "") },
		"a nudge before a poll": func(p *Poller) { signal(p.nudge, ""); p.Soon() },
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &busyHub{begin: time.Now()}
			p, stop := running(t, h, func() string { return "" })
			<-time.After(time.Second)
			for range 20 {
				wake(p)
				<-time.After(time.Second)
			}
			stop()
			if len(h.asked) != 21 || slices.Contains(h.haves[1:], false) {
				t.Errorf("%s: %d Syncs, with what the cluster has: %v", name, len(h.asked), h.haves)
			}
		})
	}
}

// The first Sync waits for the first message of the stream, which says when it is this agent's turn.
func TestTheFirstSyncWaitsForTheStream(t *testing.T) {
	t.Parallel()
	later := func(p *Poller) { signal(p.opened, struct{}{}) }
	for name, c := range map[string]struct {
		tell   func(p *Poller) // after a second
		then   func(p *Poller) // after a minute
		asks   time.Duration
		nudged bool
	}{
		"a heartbeat":          {tell: (*Poller).Soon, asks: time.Second},
		"a nudge":              {tell: func(p *Poller) { signal(p.nudge, "") }, asks: time.Second, nudged: true},
		"no stream to be had":  {tell: func(p *Poller) { signal(p.ended, struct{}{}) }, asks: time.Second},
		"nothing":              {asks: openPatience},
		"a turn, and a nudge":  {tell: later, then: func(p *Poller) { signal(p.nudge, "") }, asks: time.Minute, nudged: true},
		"a turn that is over":  {tell: later, then: (*Poller).Soon, asks: time.Minute},
		"a turn, and a cut":    {tell: later, then: func(p *Poller) { signal(p.ended, struct{}{}) }, asks: time.Minute},
		"both, the nudge last": {tell: func(p *Poller) { p.Soon(); signal(p.nudge, "") }, asks: time.Second, nudged: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &busyHub{begin: time.Now()}
			p := newPoller(h, func() string { return "" })
			p.Streams = nil
			stop := run(t, p)
			<-time.After(time.Second)
			if c.tell != nil {
				c.tell(p)
			}
			<-time.After(time.Minute - time.Second)
			if c.then != nil {
				c.then(p)
			}
			<-time.After(time.Second)
			stop()
			if len(h.asked) != 1 || h.asked[0] != c.asks || h.haves[0] != c.nudged {
				t.Errorf("%s: asked after %s, with what the cluster has: %v", name, h.asked, h.haves)
			}
		})
	}
}
