package deliveryclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/retry"
)

const (
	// watchRetryMax bounds the wait before the stream is opened again: until then only polls find changes.
	watchRetryMax = 30 * time.Second
	// goAwayWait spreads the agents that one replica sends away.
	goAwayWait = time.Second
)

var errGoAway = errors.New("the distributor is about to stop")

// Watch keeps a stream of nudges open until ctx ends.
func (p *Poller) Watch(ctx context.Context) error {
	backoff := retry.Backoff{Floor: retryFloor, Max: watchRetryMax}
	for {
		one, err := p.Distributors.Current()
		if err == nil {
			err = p.follow(ctx, one, backoff.Reset)
		}
		signal(p.ended, struct{}{})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // told to stop
		}
		wait := backoff.After(err)
		switch {
		case errors.Is(err, errGoAway):
			p.Distributors.Failed(one.URL, nil)
			wait = min(wait, goAwayWait)
		case err != nil:
			p.Log.Debug("the stream of nudges ended", "err", err, "retry_in", wait)
			p.Distributors.Failed(one.URL, err)
		}
		if !retry.Sleep(ctx, wait) {
			return nil
		}
	}
}

// follow reads one stream to its end. With the first message comes a Sync, at once or when it is this agent's turn: a
// nudge may have been missed.
func (p *Poller) follow(ctx context.Context, one Distributor, opened func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	still := time.AfterFunc(silence, func() { cancel(fmt.Errorf("nothing heard for %s", silence)) })
	defer still.Stop()
	stream, err := one.RPC.Watch(ctx, &deliveryv1.WatchRequest{})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer stream.Close()
	turn := time.AfterFunc(retryMax, p.Soon) // runs only while this agent waits for its turn
	defer turn.Stop()
	turn.Stop()
	for first := true; stream.Receive(); first = false {
		still.Reset(silence)
		if first {
			opened()
			signal(p.opened, struct{}{})
		}
		switch event := stream.Msg().GetEvent().(type) {
		case *deliveryv1.WatchResponse_GoAway:
			return errGoAway
		case *deliveryv1.WatchResponse_Nudge:
			turn.Stop()
			p.nudged.Store(&lastNudge{event.Nudge.GetRevision(), time.Now()})
			signal(p.nudge, event.Nudge.GetTraceparent())
			continue
		case *deliveryv1.WatchResponse_ReportTurn:
			if p.ReportTurn != nil {
				p.ReportTurn()
			}
		case *deliveryv1.WatchResponse_Heartbeat:
			p.quiet.hear(event.Heartbeat.GetWanted())
			if within := event.Heartbeat.GetTurnWithin().AsDuration(); first && within > 0 {
				turn.Reset(min(within, retryMax))
				continue
			}
		}
		if first {
			signal(p.soon, struct{}{})
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err := stream.Err(); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	return nil
}

// signal never blocks: a signal that is not taken yet stands for this one, too.
func signal[T any](to chan<- T, what T) {
	select {
	case to <- what:
	default:
	}
}
