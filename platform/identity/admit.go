package identity

import (
	"context"
	"net/http"
	"time"
)

// Admit tells whether a request may pass, or else why not, as an error of Connect. Admit is for a server that decides
// before it reads the body. Within Abortable it remembers who was let in: Interceptor asks the same verifier no second
// time, unless the body took long, and only looks whether the role fits.
func Admit(v Verifier, role Role, r *http.Request) error {
	c, refused := authenticate(r.Context(), v, role, r.Header)
	if refused != nil {
		return refused.connect()
	}
	if call := callOf(r.Context()); call != nil && !c.open {
		call.admitted, call.at = c, time.Now()
	}
	return nil
}

// Admitted returns the identity that Admit let in, for a handler that decides before it reads the body; false: Admit
// asked for none, or the request did not come through Abortable.
func Admitted(ctx context.Context) (Identity, bool) {
	if call := callOf(ctx); call != nil && call.admitted != nil {
		return call.admitted.id, true
	}
	return Identity{}, false
}

// call is what is known of a request that is served within Abortable.
type call struct {
	w      http.ResponseWriter
	remote string

	admitted *caller // by Admit, before the handler ran; nil: nobody was asked
	at       time.Time
	rejected error // the token
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// Rejected tells, when a request that came through Abortable was served, why its token was not accepted: ErrInvalid,
// ErrExpired or ErrRevoked, or nil.
func Rejected(ctx context.Context) error {
	if call := callOf(ctx); call != nil {
		return call.rejected
	}
	return nil
}

// Abortable goes around all of a server's handlers, outermost, so that Interceptor can end a
// stream that waits in Receive or Send.
func Abortable(next http.Handler) http.Handler { return &abortable{next} }

type abortable struct{ next http.Handler }

func (a *abortable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, &call{w: w, remote: r.RemoteAddr})))
}
