package deliveryclient

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
)

// pacingHub has each agent wait for its turn, and nudges it when the test says so.
type pacingHub struct {
	deliveryv1connect.UnimplementedDeliveryServiceHandler

	within time.Duration
	nudge  chan struct{}
	report chan struct{}
	asked  chan time.Time
	turns  chan struct{} // at the agent
}

func (h *pacingHub) Watch(
	ctx context.Context, _ *deliveryv1.WatchRequest, out *connect.ServerStream[deliveryv1.WatchResponse],
) error {
	turn := &deliveryv1.Heartbeat{TurnWithin: durationpb.New(h.within)}
	err := out.Send(&deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_Heartbeat{Heartbeat: turn}})
	for err == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.nudge:
			nudge := &deliveryv1.WatchResponse_Nudge{Nudge: &deliveryv1.Nudge{}}
			err = out.Send(&deliveryv1.WatchResponse{Event: nudge})
		case <-h.report:
			turn := &deliveryv1.WatchResponse_ReportTurn{ReportTurn: &deliveryv1.ReportTurn{}}
			err = out.Send(&deliveryv1.WatchResponse{Event: turn})
		}
	}
	return err
}

func (h *pacingHub) Sync(context.Context, *deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
	h.asked <- time.Now()
	nothing := &deliveryv1.NotModified{}
	return &deliveryv1.SyncResponse{Result: &deliveryv1.SyncResponse_NotModified{NotModified: nothing}}, nil
}

// begin runs a poller and its stream until the test ends.
func (h *pacingHub) begin(t *testing.T) {
	t.Helper()
	h.nudge, h.asked = make(chan struct{}), make(chan time.Time, 10)
	h.report, h.turns = make(chan struct{}), make(chan struct{}, 10)
	_, handler := deliveryv1connect.NewDeliveryServiceHandler(h)
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.StartTLS()
	p := newPoller(nil, func() string { return "" })
	p.Streams = nil
	p.ReportTurn = func() { h.turns <- struct{}{} }
	p.Distributors = New(s.Client(), nil)
	p.Distributors.Set([]string{s.URL})
	ctx, cancel := context.WithCancel(t.Context())
	stop := run(t, p)
	watched := make(chan error, 1)
	go func() { watched <- p.Watch(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-watched; err != nil {
			t.Error(err)
		}
		stop()
		s.Client().Transport.(*http.Transport).CloseIdleConnections()
		s.Close()
	})
}

func TestAnAgentThatWaitsForItsTurnAsksWhenItIsNudged(t *testing.T) {
	t.Parallel()
	h := &pacingHub{within: time.Minute}
	h.begin(t)
	h.nudge <- struct{}{} // the stream is there, and its first message before
	<-h.asked
	if n := len(h.asked); n != 0 {
		t.Errorf("%d Syncs more", n)
	}
}

func TestTheHubCallsForReports(t *testing.T) {
	t.Parallel()
	h := &pacingHub{within: time.Minute}
	h.begin(t)
	h.report <- struct{}{}
	<-h.turns
	if n := len(h.asked); n != 0 {
		t.Errorf("%d Syncs for reports", n)
	}
}

func TestAnAgentThatHearsNoNudgeAsksByItself(t *testing.T) {
	t.Parallel()
	h := &pacingHub{within: 50 * time.Millisecond}
	begin := time.Now()
	h.begin(t)
	if at := <-h.asked; at.Sub(begin) < h.within {
		t.Errorf("asked after %s", at.Sub(begin))
	}
}

// Streams may be turned off while an agent waits for its turn.
func TestAStreamThatIsStoppedHasEnded(t *testing.T) {
	t.Parallel()
	p := newPoller(nil, func() string { return "" })
	p.Distributors = New(http.DefaultClient, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Watch(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	default:
		t.Error("the first Sync would wait for a nudge")
	}
}
