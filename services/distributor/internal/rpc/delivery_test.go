package rpc_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/catalog"
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

func handler(t *testing.T) (http.Handler, *nudge.Hub) {
	t.Helper()
	p := plan.New(plan.Memory{})
	p.Update(time.Now().Add(-time.Hour), func(u *plan.Update) {
		u.Cluster("edge-1", true)
		u.Loaded()
	})
	hub := nudge.New()
	metrics, err := observe.New(prometheus.NewRegistry(), observe.State{
		Store: func() artifact.Stats { return artifact.Stats{} }, Plan: p.Counts, Watchers: hub.Watchers,
		Stale: func() (time.Time, bool) { return time.Now(), false },
	})
	if err != nil {
		t.Fatal(err)
	}
	d := rpc.NewDelivery(rpc.Deps{
		Plan: p, Stale: func() (time.Time, bool) { return time.Now(), false }, Confirmed: time.Now, Nudges: hub, Metrics: metrics, NextPoll: 2 * time.Minute, Pressure: func() float64 { return 0 }, Hold: hold.New(nil, func() catalog.Removals { return catalog.Removals{} }, nil), Seen: status.NewSeen(nobody{}, nil), Reports: status.NewReports(nobody{}, nil),
	})
	_, h := deliveryv1connect.NewDeliveryServiceHandler(d)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent := identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}
		h.ServeHTTP(w, r.WithContext(identity.NewContext(r.Context(), agent)))
	}), hub
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
		beats, last, away := 0, begun, false
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
				beats++
			case stream.Msg().GetGoAway() != nil:
				away = true
			default:
				t.Error("a nudge for nothing") // the last change is an hour old
			}
		}
		life := time.Since(begun)
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
