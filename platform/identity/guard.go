package identity

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// abortGrace is what a handler has, after its context has ended and its reads fail, to write
// its last words. Then writing fails, too.
const abortGrace = 5 * time.Second

// lastWords is what a handler that called BeforeEnd has to end its answer well, before its context ends. The time is
// within the 30 s of a revocation.
const lastWords = time.Second

// guard ends a running request when its token is revoked, or when the login does that the token is of.
type guard struct {
	verifier Verifier
	token    string
	ends     time.Time // see Identity.RequestsEnd
	cancel   context.CancelCauseFunc
	response *http.ResponseController // nil: the context is all there is
	rounds   *rounds
	group    int // of the rounds, whose it is

	mu      sync.Mutex  // guards what follows, and the response against the end of the request
	timer   *time.Timer // of the request's last moment by ends, or of its end; nil: there is time
	last    func()      // of BeforeEnd; nil: nothing
	stopped bool
	cause   error // why the request was ended
}

type guardKey struct{}

// BeforeEnd has f called a second before the request of a context is ended because of its token. BeforeEnd is for
// handlers behind Middleware whose answers have places where they can end well. f must not wait. Call stop before the
// handler returns: f runs no more then. A request has one such f.
func BeforeEnd(ctx context.Context, f func()) (stop func()) {
	g, ok := ctx.Value(guardKey{}).(*guard)
	if !ok {
		return func() {}
	}
	g.setLast(f)
	return func() { g.setLast(nil) }
}

func (g *guard) setLast(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last = f; f != nil && g.cause != nil {
		f()
	}
}

// newGuard returns a guard and the context that it ends with the verifier's error as cause. Stop
// it before the request ends.
func newGuard(ctx context.Context, v Verifier, r *rounds, c *caller, response *http.ResponseController) (context.Context, *guard) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &guard{verifier: v, token: c.token, ends: c.id.RequestsEnd().Add(leeway), cancel: cancel, response: response, rounds: r}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.awaitEnd()
	r.join(g)
	return ctx, g
}

// awaitEnd checks at the request's last moment, if that is before the next turn. Callers hold mu.
func (g *guard) awaitEnd() {
	if left := time.Until(g.ends); g.timer == nil && left < RecheckInterval+roundEvery {
		g.timer = time.AfterFunc(max(0, left), g.check)
	}
}

func (g *guard) check() {
	_, err := g.verifier.Verify(g.token)
	if errors.Is(err, ErrExpired) && time.Now().Before(g.ends) {
		err = nil // the request began in time, and its token is not revoked
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.stopped || g.cause != nil:
	case err == nil:
		g.awaitEnd()
	case g.last != nil:
		g.cause = err
		g.last()
		g.setTimer(lastWords, g.end)
	default:
		g.cause = err
		g.endLocked()
	}
}

// end ends the request.
func (g *guard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.stopped {
		g.endLocked()
	}
}

// endLocked is called with mu held.
func (g *guard) endLocked() {
	g.cancel(g.cause)
	if g.response != nil {
		// For those who wait in a read. Where it isn't supported the context has to do.
		_ = g.response.SetReadDeadline(time.Now())
	}
	g.setTimer(abortGrace, g.abort)
}

// setTimer is called with mu held.
func (g *guard) setTimer(d time.Duration, then func()) {
	if g.timer != nil {
		g.timer.Stop()
	}
	g.timer = time.AfterFunc(d, then)
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
	g.rounds.leave(g)
	if g.timer != nil {
		g.timer.Stop()
	}
	g.cancel(nil)
}
