package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	platform "fairlead.dev/platform/deliveryclient"
	"fairlead.dev/platform/retry"
)

// As the agent's reporter has them.
const (
	reportGather  = 100 * time.Millisecond
	reportHold    = time.Second // of progress, and longestHold while the hub wants it
	longestHold   = 15 * time.Second
	reportBatch   = 200
	reportTimeout = 30 * time.Second
)

// reporter is the agent's without its disk: per service the latest state, sent until it is acknowledged.
type reporter struct {
	distributors *platform.Distributors
	wake         chan struct{}
	turn         chan struct{} // the hub has time

	mu       sync.Mutex // guards what follows
	sequence uint64
	pending  map[string]*deliveryv1.ServiceReport
	held     map[string]time.Time // until when progress is kept back
	hold     time.Duration        // of progress that comes
}

func newReporter(d *platform.Distributors) *reporter {
	// Above those of an earlier run, as the agent's disk would have it.
	return &reporter{
		distributors: d, wake: make(chan struct{}, 1), turn: make(chan struct{}, 1), sequence: uint64(time.Now().UnixMicro()),
		pending: map[string]*deliveryv1.ServiceReport{}, held: map[string]time.Time{}, hold: reportHold,
	}
}

func (r *reporter) set(s *deliveryv1.ServiceDelivery, phase deliveryv1.Phase) {
	const objects = 3
	now := timestamppb.Now()
	report := &deliveryv1.ServiceReport{
		Service: s.GetName(), Phase: phase, Digest: s.GetDigest(), Commit: s.GetRevision().GetCommit(),
		AppliedDigest: s.GetDigest(), AppliedCommit: s.GetRevision().GetCommit(), AppliedTime: now, ObservedTime: now,
		ObjectsTotal: objects, Traceparent: s.GetRevision().GetTraceparent(),
	}
	if phase == deliveryv1.Phase_PHASE_HEALTHY {
		report.ObjectsHealthy = objects
	}
	r.mu.Lock()
	r.sequence++
	report.Sequence = r.sequence
	r.pending[s.GetName()] = report
	if delete(r.held, s.GetName()); phase != deliveryv1.Phase_PHASE_HEALTHY {
		r.held[s.GetName()] = now.AsTime().Add(r.hold)
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// holdProgress is as the agent's.
func (r *reporter) holdProgress(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = min(max(d, reportHold), longestHold)
}

// rest is until when all that is pending is kept back; zero: something is not.
func (r *reporter) rest() (until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.pending {
		at, held := r.held[name]
		if !held {
			return time.Time{}
		}
		if until.IsZero() || at.Before(until) {
			until = at
		}
	}
	return until
}

// left is how many services' states are not acknowledged.
func (r *reporter) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pending)
}

func (r *reporter) run(ctx context.Context) error {
	backoff := retry.Backoff{Floor: 200 * time.Millisecond, Max: time.Minute}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		}
		for wait := reportGather; r.left() > 0; {
			if !r.awaits(ctx, wait, r.turn) {
				return nil //nolint:nilerr // told to stop
			}
			if wait = time.Until(r.rest()); wait > 0 {
				if !r.awaits(ctx, wait, r.wake) {
					return nil
				}
				wait = reportGather
				continue
			}
			wait = reportGather
			select { // a turn from here on is one after a refusal
			case <-r.turn:
			default:
			}
			if err := r.send(ctx); err != nil {
				wait = backoff.After(err)
			} else {
				backoff.Reset()
			}
		}
	}
}

// reportTurn is as the agent's.
func (r *reporter) reportTurn() {
	select {
	case r.turn <- struct{}{}:
	default:
	}
}

// awaits ends when it is woken, or after a time. False: ctx ended.
func (r *reporter) awaits(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C:
	}
	return true
}

func (r *reporter) send(ctx context.Context) error {
	r.mu.Lock()
	var list []*deliveryv1.ServiceReport
	for name, report := range r.pending {
		if time.Now().Before(r.held[name]) {
			continue
		}
		delete(r.held, name)
		if list = append(list, report); len(list) == reportBatch {
			break
		}
	}
	r.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	var answer *deliveryv1.ReportResponse
	err := r.distributors.Try(ctx, func(ctx context.Context, one platform.Distributor) (err error) {
		ctx, cancel := context.WithTimeout(ctx, reportTimeout)
		defer cancel()
		answer, err = one.RPC.Report(ctx, &deliveryv1.ReportRequest{Reports: list})
		return err
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	acked := 0
	for _, ack := range answer.GetAcknowledged() {
		acked++
		if kept := r.pending[ack.GetService()]; kept != nil && ack.GetSequence() >= kept.GetSequence() {
			delete(r.pending, ack.GetService())
		}
	}
	if acked < len(list) {
		return errors.New("not all reports are acknowledged")
	}
	return nil
}
