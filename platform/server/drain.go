package server

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	// drainLimit bounds how long requests may finish after intake has stopped: below the 30 s that
	// Kubernetes gives, with room for the services' own last steps.
	drainLimit = 10 * time.Second
	// unwindLimit is how long handlers get to return after their contexts ended.
	unwindLimit = 2 * time.Second
)

// drain knows what has to end before the server may.
type drain struct {
	begun   chan struct{}      // Closed when intake stops.
	ctx     context.Context    // Every request's root; ended when the drain's time is over.
	cancel  context.CancelFunc // Ends ctx.
	mu      sync.Mutex
	closed  bool           // Guarded by mu: running only grows while false.
	running sync.WaitGroup // Handlers, also those that took their connection over.
}

func newDrain() *drain {
	ctx, cancel := context.WithCancel(context.Background())
	return &drain{begun: make(chan struct{}), ctx: ctx, cancel: cancel}
}

func (d *drain) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.running.Add(1)
	return true
}

// wait reports whether all handlers returned in time.
func (d *drain) wait(limit time.Duration) bool {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	done := make(chan struct{})
	go func() {
		d.running.Wait()
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

type drainKey struct{}

// Draining returns a channel that is closed when the server that serves this request begins to
// drain: long streams say goodbye then and end. With a context that is no request's it is nil, which
// blocks for ever.
func Draining(ctx context.Context) <-chan struct{} {
	begun, _ := ctx.Value(drainKey{}).(chan struct{})
	return begun
}

func isDraining(ctx context.Context) bool {
	select {
	case <-Draining(ctx):
		return true
	default:
		return false
	}
}

// endOnDrain ends a request's context when the drain begins.
func endOnDrain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		done := make(chan struct{})
		var watcher sync.WaitGroup
		watcher.Go(func() {
			select {
			case <-Draining(ctx):
				cancel()
			case <-done:
			}
		})
		defer watcher.Wait()
		defer close(done)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
