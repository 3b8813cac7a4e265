package rpc

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/distributor/internal/nudge"
)

const (
	// seenEvery is how often an open stream counts as a sign of life: well within the minutes after
	// which the console calls a cluster disconnected.
	seenEvery = time.Minute
	// A stream lives for a random time from half of maxLife to all of it, so that agents spread over
	// replicas that come later, and do not redial together. The stream ends at a beat.
	maxLife = 40*time.Minute - nudge.Beat
	// turnWithin is when an agent that waits for its turn asks without: its nudge was lost, or others take long.
	turnWithin = time.Minute
)

// stream is an open one.
type stream struct {
	cluster string
	watcher *nudge.Watcher
	out     *connect.ServerStream[deliveryv1.WatchResponse]
	seen    time.Time // when it counted last as a sign of life
	end     time.Time
}

// Watch implements DeliveryService.
func (d *Delivery) Watch(ctx context.Context, _ *deliveryv1.WatchRequest, out *connect.ServerStream[deliveryv1.WatchResponse]) error {
	cluster, ok := identity.Cluster(ctx)
	if !ok {
		return errNoAgent
	}
	// From here on no change is missed; what changed just before is told at once.
	w := d.deps.Nudges.Watch(cluster)
	defer w.Close()
	s, err := d.open(ctx, w, cluster, out)
	if err != nil {
		return err
	}
	d.deps.Hold.Moved(cluster)
	defer d.deps.Hold.Moved(cluster)
	err = d.wait(ctx, s)
	if err != nil && !isDraining(ctx) {
		// Not by us: the agent is gone, or dials again soon.
		d.deps.Seen.Lost(cluster, time.Now())
	}
	return err
}

// open sends the first message of a stream.
//
//go:noinline
func (d *Delivery) open(ctx context.Context, w *nudge.Watcher, cluster string, out *connect.ServerStream[deliveryv1.WatchResponse]) (*stream, error) {
	m, err := d.first(ctx, w, cluster)
	if err != nil {
		return nil, err
	}
	if err := out.Send(m); err != nil { // may take as long as the agent likes
		return nil, err
	}
	now := time.Now()
	d.deps.Seen.Mark(cluster, now)
	return &stream{
		cluster: cluster, watcher: w, out: out, seen: now,
		end: now.Add(retry.Between(maxLife/2, maxLife)),
	}, nil
}

// first takes a turn to find the first message.
func (d *Delivery) first(ctx context.Context, w *nudge.Watcher, cluster string) (*deliveryv1.WatchResponse, error) {
	if err := d.opens.enter(ctx); err != nil {
		return nil, err
	}
	defer d.opens.leave()
	changed, revision, err := d.deps.Plan.Changed(cluster)
	if err != nil {
		return nil, toConnect(err, cluster)
	}
	if !w.Begin() {
		return waitForTurn(), nil
	}
	if time.Since(changed) < 2*d.deps.NextPoll { // the longest that one may have been without
		return nudgeNow("", revision), nil
	}
	return beat(0), nil // with the first message the agent asks
}

// isDraining says that the end of a stream is our own doing.
func isDraining(ctx context.Context) bool {
	select {
	case <-server.Draining(ctx):
		return true
	default:
		return false
	}
}

// wait tells the stream's events as they come. wait is on the stack of every stream all the time: what there is to do
// at an event is done apart.
func (d *Delivery) wait(ctx context.Context, s *stream) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-server.Draining(ctx):
			return s.out.Send(goAway())
		case <-s.watcher.C():
		}
		if over, err := d.tell(s); over || err != nil {
			return err
		}
	}
}

// tell sends what there is to tell, and says whether the stream is over.
//
//go:noinline
func (d *Delivery) tell(s *stream) (over bool, err error) {
	var m *deliveryv1.WatchResponse
	now := time.Now()
	e, trace := s.watcher.Take()
	if e&nudge.Report != 0 {
		if err := s.out.Send(reportTurn()); err != nil {
			return false, err
		}
	}
	switch {
	case now.After(s.end):
		return true, s.out.Send(goAway())
	case e&nudge.Nudge != 0:
		_, revision, _ := d.deps.Plan.Changed(s.cluster) // 0 for one that went: its agent hears of that by asking
		m = nudgeNow(trace, revision)
	case e&nudge.Alive != 0:
		m = beat(d.wanted(s.cluster))
	default:
		return false, nil // the nudge went with the one before
	}
	if now.Sub(s.seen) >= seenEvery {
		d.deps.Seen.Mark(s.cluster, now)
		s.seen = now
	}
	return false, s.out.Send(m)
}

func beat(wanted uint64) *deliveryv1.WatchResponse {
	return &deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_Heartbeat{Heartbeat: &deliveryv1.Heartbeat{Wanted: wanted}}}
}

func waitForTurn() *deliveryv1.WatchResponse {
	return &deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_Heartbeat{Heartbeat: &deliveryv1.Heartbeat{
		TurnWithin: durationpb.New(retry.Spread(turnWithin)),
	}}}
}

func nudgeNow(trace string, revision int64) *deliveryv1.WatchResponse {
	return &deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_Nudge{Nudge: &deliveryv1.Nudge{Traceparent: trace, Revision: revision}}}
}

func reportTurn() *deliveryv1.WatchResponse {
	return &deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_ReportTurn{ReportTurn: &deliveryv1.ReportTurn{}}}
}

func goAway() *deliveryv1.WatchResponse {
	return &deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_GoAway{GoAway: &deliveryv1.GoAway{}}}
}
