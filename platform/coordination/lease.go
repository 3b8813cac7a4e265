package coordination

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

// marginDivisor sets the part of its ttl (a tenth) that a holder stops before the store forgets
// the lease: for clocks that run at different speeds, and for the act that Valid was asked for.
const marginDivisor = 10

// leaseStore is what a Lease needs of its store.
type leaseStore interface {
	// renewLease keeps the lease for its ttl from now. If the store has forgotten it, and nobody
	// else had the key since, the store takes it back. False: it is somebody else's or was.
	renewLease(ctx context.Context, l *Lease) (bool, error)
	// releaseLease gives the key free if it is still l's.
	releaseLease(ctx context.Context, l *Lease) error
}

// Lease is a key held for a time. Its own monotonic clock ends it before the store does; a process
// that was stopped meanwhile finds it invalid when it goes on. A Lease is safe for concurrent use.
//
// The clock does not run while the whole machine is suspended: fence what matters.
type Lease struct {
	key, holder string
	token       string // tells this lease from any other, also of the same holder
	epoch       int64
	ttl         time.Duration
	store       leaseStore
	done        chan struct{}

	mu       sync.Mutex  // guards what follows
	deadline time.Time   // with its monotonic part
	timer    *time.Timer // calls expire at the deadline
	over     bool
}

// newLease returns a lease whose ttl began, at the latest, at start: before the store was asked.
func newLease(store leaseStore, key, holder string, ttl time.Duration) (l *Lease, granted func(epoch int64) *Lease) {
	l = &Lease{key: key, holder: holder, token: rand.Text(), ttl: ttl, store: store, done: make(chan struct{})}
	start := time.Now()
	return l, func(epoch int64) *Lease {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.epoch = epoch
		l.deadline = l.deadlineFrom(start)
		l.timer = time.AfterFunc(time.Until(l.deadline), l.expire)
		return l
	}
}

func (l *Lease) deadlineFrom(start time.Time) time.Time {
	return start.Add(l.ttl - l.ttl/marginDivisor)
}

// Key is what is held.
func (l *Lease) Key() string { return l.key }

// Epoch grows with each lease of the key. The epoch is a hint for logs, not a fence.
func (l *Lease) Epoch() int64 { return l.epoch }

// Renew makes the lease live for its ttl from now. ErrLost (wrapped): it is over, step down. Any
// other error: the store did not answer; the lease lives on until Done, so try again.
func (l *Lease) Renew(ctx context.Context) error {
	start := time.Now()
	l.mu.Lock()
	deadline, valid := l.deadline, l.validLocked()
	l.mu.Unlock()
	if !valid {
		return fmt.Errorf("renew lease %q: %w", l.key, ErrLost)
	}
	ctx, cancel := context.WithTimeout(ctx, min(OpTimeout, time.Until(deadline)))
	defer cancel()
	ok, err := l.store.renewLease(ctx, l)
	if err != nil {
		return fmt.Errorf("renew lease %q: %w", l.key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !ok || !l.validLocked() {
		l.endLocked()
		return fmt.Errorf("renew lease %q: %w", l.key, ErrLost)
	}
	// Two calls may overlap: the later start wins.
	if d := l.deadlineFrom(start); d.After(l.deadline) {
		l.deadline = d
		l.timer.Reset(time.Until(d))
	}
	return nil
}

// Release ends the lease now and gives the key free. Releasing twice is no error.
func (l *Lease) Release(ctx context.Context) error {
	// The holder stops first: from here on the key may be somebody else's.
	l.mu.Lock()
	l.endLocked()
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	if err := l.store.releaseLease(ctx, l); err != nil && !errors.Is(err, ErrClosed) {
		return fmt.Errorf("release lease %q (it runs out within %s): %w", l.key, l.ttl, err)
	}
	return nil
}

// Valid tells whether the holder may still act. Check it right before each act.
func (l *Lease) Valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.validLocked()
}

// Done is closed when the lease is no longer valid.
func (l *Lease) Done() <-chan struct{} { return l.done }

func (l *Lease) validLocked() bool { return !l.over && time.Now().Before(l.deadline) }

func (l *Lease) endLocked() {
	if l.over {
		return
	}
	l.over = true
	l.timer.Stop()
	close(l.done)
}

func (l *Lease) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := time.Until(l.deadline); left > 0 {
		l.timer.Reset(left) // renewed while the timer fired
		return
	}
	l.endLocked()
}
