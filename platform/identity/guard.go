package identity

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// abortGrace is what a handler has, after its context has ended and its reads fail, to write
// its last words. Then writing fails, too.
const abortGrace = 5 * time.Second

// guard ends a running request when its token does.
type guard struct {
	verifier Verifier
	token    string
	expires  time.Time
	cancel   context.CancelCauseFunc
	response *http.ResponseController // nil: the context is all there is
	rounds   *rounds
	group    int // of the rounds, whose it is

	mu      sync.Mutex  // guards what follows, and the response against the end of the request
	timer   *time.Timer // of the token's last moment, or of the request's; nil: there is time
	stopped bool
	cause   error // why the request was ended
}

// newGuard returns a guard and the context that it ends with the verifier's error as cause. Stop
// it before the request ends.
func newGuard(ctx context.Context, v Verifier, r *rounds, c *caller, response *http.ResponseController) (context.Context, *guard) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &guard{verifier: v, token: c.token, expires: c.id.ExpiresAt.Add(leeway), cancel: cancel, response: response, rounds: r}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.awaitEnd()
	r.join(g)
	return ctx, g
}

// awaitEnd checks at the token's last moment, if that is before the next turn. It is called with mu held.
func (g *guard) awaitEnd() {
	if left := time.Until(g.expires); g.timer == nil && left < RecheckInterval+roundEvery {
		g.timer = time.AfterFunc(max(0, left), g.check)
	}
}

func (g *guard) check() {
	_, err := g.verifier.Verify(g.token)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.stopped || g.cause != nil:
	case err == nil:
		g.awaitEnd()
	default:
		g.cause = err
		g.cancel(err)
		if g.response != nil {
			// For those who wait in a read. Where it isn't supported the context has to do.
			_ = g.response.SetReadDeadline(time.Now())
		}
		g.setTimer(abortGrace, g.abort)
	}
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
