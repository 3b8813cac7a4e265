package rpc

import (
	"context"
	"math/rand/v2"
	"time"

	"connectrpc.com/connect"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/distributor/internal/nudge"
)

const (
	// seenEvery is how often an open stream counts as a sign of life: well within the minutes after
	// which the console calls a cluster disconnected.
	seenEvery = time.Minute
	// A stream lives for a random time from half of maxLife to all of it, so that agents spread over
	// replicas that come later, and do not redial together. It ends at a beat.
	maxLife = 40*time.Minute - nudge.Beat
)

// Watch implements DeliveryService.
func (d *Delivery) Watch(ctx context.Context, _ *deliveryv1.WatchRequest, out *connect.ServerStream[deliveryv1.WatchResponse]) error {
	cluster, ok := identity.Cluster(ctx)
	if !ok {
		return errNoAgent
	}
	// From here on no change is missed; what changed just before is told at once.
	w := d.deps.Nudges.Watch(cluster)
	defer w.Close()
	first, err := d.open(ctx, cluster)
	if err != nil {
		return err
	}
	if err := out.Send(first); err != nil { // may take as long as the agent likes
		return err
	}
	d.deps.Seen.Mark(cluster, time.Now())
	d.deps.Hold.Moved(cluster)
	defer d.deps.Hold.Moved(cluster)
	err = d.stream(ctx, cluster, w, out)
	if err != nil && !isDraining(ctx) {
		// Not by us: the agent is gone, or dials again soon.
		d.deps.Seen.Lost(cluster, time.Now())
	}
	return err
}

// open takes a turn to find the first message.
func (d *Delivery) open(ctx context.Context, cluster string) (*deliveryv1.WatchResponse, error) {
	if err := d.opens.enter(ctx); err != nil {
		return nil, err
	}
	defer d.opens.leave()
	changed, err := d.deps.Plan.Changed(cluster)
	if err != nil {
		return nil, toConnect(err, cluster)
	}
	if time.Since(changed) < 2*d.deps.NextPoll { // the longest that one may have been without
		return nudgeNow(""), nil
	}
	return beat(), nil
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

func (d *Delivery) stream(ctx context.Context, cluster string, w *nudge.Watcher, out *connect.ServerStream[deliveryv1.WatchResponse]) error {
	seen := time.Now()
	end := seen.Add(maxLife/2 + rand.N(maxLife/2)) //nolint:gosec // jitter is no secret
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-server.Draining(ctx):
			return out.Send(goAway())
		case <-w.C():
		}
		m, now := beat(), time.Now()
		switch e, trace := w.Take(); {
		case now.After(end):
			return out.Send(goAway())
		case e&nudge.Nudge != 0:
			m = nudgeNow(trace)
		case e == 0:
			continue // it went with the one before
		}
		if now.Sub(seen) >= seenEvery {
			d.deps.Seen.Mark(cluster, now)
			seen = now
		}
		if err := out.Send(m); err != nil {
			return err
		}
	}
}

func beat() *deliveryv1.WatchResponse {
	return &deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_Heartbeat{Heartbeat: &deliveryv1.Heartbeat{}}}
}

func nudgeNow(trace string) *deliveryv1.WatchResponse {
	return &deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_Nudge{Nudge: &deliveryv1.Nudge{Traceparent: trace}}}
}

func goAway() *deliveryv1.WatchResponse {
	return &deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_GoAway{GoAway: &deliveryv1.GoAway{}}}
}
