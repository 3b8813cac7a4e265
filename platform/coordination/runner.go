package coordination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"fairlead.dev/platform/retry"
)

const (
	// renewDivisor: a lease or membership is renewed at a third of its ttl, so that one failure or
	// slow answer costs nothing.
	renewDivisor = 3
	// retryDivisor: after a failure it is tried again at a tenth of its ttl, and so often is a lease tried for by the
	// replica that should have it while another one has it.
	retryDivisor = 10
	// minPause between two looks at a key.
	minPause = 10 * time.Millisecond
)

// LeaseRunner holds a lease whenever it can, and works while it does.
type LeaseRunner struct {
	Leases      Leases
	Key, Holder string
	TTL         time.Duration
	Log         *slog.Logger
	// Do works under the lease. Its context ends when the lease does (cause ErrLost) or Run's does;
	// it must return then, well within a tenth of TTL. When it returns earlier, the lease is
	// released, an error is logged, and after a pause the next lease is tried for.
	Do func(ctx context.Context, l *Lease) error
	// Turn, if there is one, says before each try how long a free lease is to be left to others; with
	// a negative answer it is not tried for. A holder whose Turn leaves the lease to nobody tries more often.
	Turn func() time.Duration
	// Wake, if there is one, ends a pause: Turn is asked again.
	Wake <-chan struct{}
	// Over, if there is one, is called after each lease was given back.
	Over func()
}

// Run tries for the lease, with jittered pauses of about a third of TTL, until ctx ends. Run returns nil then, after Do
// has returned and the lease is released; an error only at once, for fields that can't work.
func (h LeaseRunner) Run(ctx context.Context) error {
	if err := validateLease(h.Key, h.Holder, h.TTL); err != nil {
		return fmt.Errorf("hold lease: %w", err)
	}
	log := &outageLog{log: h.Log.With("lease", h.Key), what: "acquire lease"}
	for ctx.Err() == nil {
		h.pause(ctx, retry.Around(h.try(ctx, log)))
	}
	return nil
}

// try works under the lease if it can be had and it is this holder's turn. try returns about how long to wait before
// the next try.
func (h LeaseRunner) try(ctx context.Context, log *outageLog) time.Duration {
	turn, rarely, often := h.turn(), h.TTL/renewDivisor, h.TTL/retryDivisor
	if turn < 0 {
		return rarely
	}
	if turn > 0 {
		free, woken := h.leave(ctx, turn, log)
		if woken {
			return minPause
		}
		if !free {
			return rarely
		}
	}
	l, err := h.Leases.Acquire(ctx, h.Key, h.Holder, h.TTL)
	switch {
	case err == nil:
		log.ok(ctx)
		h.work(ctx, l)
		return rarely
	case !errors.Is(err, ErrHeld):
		log.failed(ctx, err)
		return rarely
	}
	log.ok(ctx)
	if h.Turn != nil && turn == 0 {
		return often
	}
	return rarely
}

// leave leaves a free lease to others for a time, and tells whether it was free whenever it looked.
func (h LeaseRunner) leave(ctx context.Context, turn time.Duration, log *outageLog) (free, woken bool) {
	for left := turn; left > 0; left -= h.TTL / renewDivisor {
		holder, err := h.Leases.Holder(ctx, h.Key)
		if err != nil {
			log.failed(ctx, err)
			return false, false
		}
		log.ok(ctx)
		if holder != "" {
			return false, false
		}
		if !h.pause(ctx, min(left, h.TTL/renewDivisor)) {
			return false, true
		}
	}
	return true, false
}

func (h LeaseRunner) turn() time.Duration {
	if h.Turn == nil {
		return 0
	}
	return h.Turn()
}

// pause waits for d; false: ctx ended before, or something was woken.
func (h LeaseRunner) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-h.Wake: // nil: never
		return false
	case <-t.C:
		return true
	}
}

func (h LeaseRunner) work(ctx context.Context, l *Lease) {
	work, cancel := context.WithCancelCause(ctx)
	var keepers sync.WaitGroup
	keepers.Go(func() {
		select {
		case <-l.Done():
			cancel(ErrLost)
		case <-work.Done():
		}
	})
	keepers.Go(func() { h.renew(work, l) })
	err := h.Do(work, l)
	lost := errors.Is(context.Cause(work), ErrLost)
	cancel(nil)
	keepers.Wait()

	log := h.Log.With("lease", l.Key(), "epoch", l.Epoch())
	switch {
	case lost:
		if err != nil {
			log = log.With("err", err)
		}
		log.WarnContext(ctx, "lease lost: its work ends here, and this replica tries for it again",
			"detail", "it was not renewed in time, or another replica has it, which goes on with the work")
	case err != nil && ctx.Err() == nil:
		log.WarnContext(ctx, "work under lease ended", "err", err)
	}
	// Also while shutting down, so that another replica goes on at once; Release bounds it.
	if err := l.Release(context.WithoutCancel(ctx)); err != nil {
		log.DebugContext(ctx, "release lease", "err", err)
	}
	if h.Over != nil {
		h.Over()
	}
}

func (h LeaseRunner) renew(ctx context.Context, l *Lease) {
	log := outageLog{log: h.Log.With("lease", h.Key), what: "renew lease"}
	wait := h.TTL / renewDivisor
	for retry.Sleep(ctx, retry.Around(wait)) {
		err := l.Renew(ctx)
		switch {
		case err == nil:
			log.ok(ctx)
			wait = h.TTL / renewDivisor
		case errors.Is(err, ErrLost):
			return
		default:
			log.failed(ctx, err)
			wait = h.TTL / retryDivisor
		}
	}
}

// Presence keeps a member in its group.
type Presence struct {
	Membership Membership
	Group      string
	// Member is asked before every heartbeat, so that URL and Meta may change; the ID may not.
	Member func() Member
	TTL    time.Duration
	Log    *slog.Logger
}

// Run joins, repeats it at a third of TTL (jittered), and leaves when ctx ends. Run returns nil then; an error only at
// once, for fields that can't work.
func (p Presence) Run(ctx context.Context) error {
	if _, err := encodeMember(p.Group, p.Member(), p.TTL); err != nil {
		return fmt.Errorf("keep member: %w", err)
	}
	log := outageLog{log: p.Log.With("group", p.Group), what: "join group"}
	for more := true; more; {
		wait := p.TTL / renewDivisor
		if err := p.Membership.Join(ctx, p.Group, p.Member(), p.TTL); err != nil {
			log.failed(ctx, err)
			wait = p.TTL / retryDivisor
		} else {
			log.ok(ctx)
		}
		more = retry.Sleep(ctx, retry.Around(wait))
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), OpTimeout)
	defer cancel()
	if err := p.Membership.Leave(leave, p.Group, p.Member().ID); err != nil {
		p.Log.DebugContext(ctx, "leave group", "group", p.Group, "err", err)
	}
	return nil
}

// outageLog says once that something began to fail, and once that it works again.
type outageLog struct {
	log  *slog.Logger
	what string
	out  bool
}

func (o *outageLog) failed(ctx context.Context, err error) {
	if !o.out && ctx.Err() == nil {
		o.out = true
		o.log.WarnContext(ctx, "coordination fails: trying on", "what", o.what, "err", err)
	}
}

func (o *outageLog) ok(ctx context.Context) {
	if o.out {
		o.out = false
		o.log.InfoContext(ctx, "coordination works again", "what", o.what)
	}
}
