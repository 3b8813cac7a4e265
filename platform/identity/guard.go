package identity

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	// RecheckInterval is how often the token of a running stream or request is verified again.
	RecheckInterval = 10 * time.Second
	// abortGrace is what a handler has, after its context has ended and its reads fail, to write
	// its last words. Then writing fails, too.
	abortGrace = 5 * time.Second
)

// guard ends a running request when its token does.
type guard struct {
	verifier Verifier
	token    string
	expires  time.Time
	cancel   context.CancelCauseFunc
	response *http.ResponseController // nil: the context is all there is

	mu      sync.Mutex // guards what follows, and the response against the end of the request
	timer   *time.Timer
	stopped bool
	cause   error // why the request was ended
}

// newGuard returns a guard and the context that it ends with the verifier's error as cause. Stop
// it before the request ends.
func newGuard(ctx context.Context, v Verifier, c *caller, response *http.ResponseController) (context.Context, *guard) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &guard{verifier: v, token: c.token, expires: c.id.ExpiresAt.Add(leeway), cancel: cancel, response: response}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(g.nextCheck(), g.check)
	return ctx, g
}

func (g *guard) nextCheck() time.Duration {
	return max(0, min(RecheckInterval, time.Until(g.expires)))
}

func (g *guard) check() {
	_, err := g.verifier.Verify(g.token)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.stopped:
	case err == nil:
		g.timer.Reset(g.nextCheck())
	default:
		g.cause = err
		g.cancel(err)
		if g.response != nil {
			// For those who wait in a read. Where it isn't supported the context has to do.
			_ = g.response.SetReadDeadline(time.Now())
		}
		g.timer = time.AfterFunc(abortGrace, g.abort)
	}
}

func (g *guard) abort() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.stopped && g.response != nil {
		_ = g.response.SetWriteDeadline(time.Now())
	}
}

// ended returns why the guard ended the request, or nil.
func (g *guard) ended() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cause
}

// stop ends the guard's work: the response is not touched any more.
func (g *guard) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	g.timer.Stop()
	g.cancel(nil)
}
