package proxy

import (
	"errors"
	"net/http"
	"time"

	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/services/tunnel/internal/session"
)

const (
	// maxAttempts bounds the sessions that are tried; only while nothing of the request was sent.
	maxAttempts = 3
	// comeBack is how long a request waits for a cluster whose sessions have just ended: its agent dials again at
	// once. goneFor is how long ago that may be.
	comeBack, goneFor = 5 * time.Second, 15 * time.Second
	// brokeFor is how long ago a session may have ended without a word for its agent to be awaited: one that lives
	// dials again within half a second or one, and one that is gone is not to keep a person waiting.
	brokeFor = 2 * time.Second
	// lookAgain is the least time between two looks while changes come in heaps, and lookAnyway the longest: news get
	// lost, and a replica that did not answer may answer again.
	lookAgain, lookAnyway = 20 * time.Millisecond, 500 * time.Millisecond
)

// route is the search for somebody who takes a request.
type route struct {
	exchange *exchange
	out      *http.Request

	tried    []*session.Session
	missing  *session.NotConnectedError // the last answer of Sessions
	stale    bool                       // a replica that should have had the cluster has it no more
	repeated bool                       // the request was lost once, and asked again
	last     error                      // why the last one did not take it
}

// askCluster sends the request over a session of this replica, else to a replica that has one. While nothing was sent,
// others are tried; what was lost before an answer began is asked once again, if that changes nothing.
func (x *exchange) askCluster(out *http.Request) (*http.Response, *kubehttp.Error) {
	rt := &route{exchange: x, out: out}
	var deadline <-chan time.Time // from the first time that there was nobody
	for {
		news := x.handler.Peers.News()
		if resp, failed := rt.tryHere(); resp != nil || failed != nil {
			return resp, failed
		}
		if x.relayed {
			return nil, &kubehttp.Error{Code: http.StatusMisdirectedRequest, Message: noSession}
		}
		if resp, failed := rt.tryElsewhere(); resp != nil || failed != nil {
			return resp, failed
		}
		if deadline == nil {
			deadline = time.After(comeBack)
		}
		if !rt.mayComeBack() {
			return nil, rt.unreachableError()
		}
		x.handler.Peers.Look(x.cluster)
		if !rt.waitForChange(news, deadline) {
			return nil, rt.unreachableError()
		}
	}
}

// tryHere tries this replica's sessions. Nil and nil: none takes the request.
func (rt *route) tryHere() (*http.Response, *kubehttp.Error) {
	caller := muxhttp.Caller{User: rt.exchange.caller.Name, Groups: rt.exchange.caller.Groups, TraceParent: rt.exchange.trace, As: rt.exchange.as}
	for range maxAttempts {
		s, err := rt.exchange.handler.Sessions.Pick(rt.exchange.cluster, rt.tried)
		if err != nil {
			errors.As(err, &rt.missing)
			return nil, nil
		}
		if refused := rt.exchange.mayCarry(s); refused != nil {
			return nil, refused
		}
		resp, err := muxhttp.Transport{Session: s.Session, Caller: caller}.RoundTrip(rt.out)
		if err == nil {
			rt.exchange.gone = s.Gone()
			return resp, nil
		}
		rt.last, rt.tried = err, append(rt.tried, s)
		if !rt.mayTryAnother(err, s) {
			return nil, rt.failedError(err)
		}
	}
	return nil, nil
}

// mayTryAnother tells whether a request that a session did not answer may be given to another one.
func (rt *route) mayTryAnother(err error, s *session.Session) bool {
	return rt.out.Context().Err() == nil && rt.mayBeTaken(err, s) && rt.rewindBody()
}

// rewindBody has the next attempt send all of the body. False: the last one has sent some of it.
func (rt *route) rewindBody() (ok bool) {
	if rt.out.Body != nil {
		rt.out.Body, ok = rt.exchange.sent.nextAttempt()
		return ok
	}
	return true
}

// mayBeTaken tells whether another session may take a request that this one did not.
func (rt *route) mayBeTaken(err error, s *session.Session) bool {
	if unsent, ok := errors.AsType[*muxhttp.UnsentError](err); ok {
		return !unsent.Invalid
	}
	if reset, ok := errors.AsType[*mux.ResetError](err); ok {
		return reset.Code == mux.CodeRefused
	}
	return !s.Stats().Usable && !errors.Is(err, muxhttp.ErrNoAnswer) && rt.mayRepeat()
}

// mayRepeat tells, once, that a request that may have been carried out can be asked again.
func (rt *route) mayRepeat() bool {
	safe := rt.out.Method == http.MethodGet || rt.out.Method == http.MethodHead || rt.out.Method == http.MethodOptions
	if rt.repeated || !safe || rt.out.Body != nil || muxhttp.IsUpgrade(rt.out.Header) {
		return false
	}
	rt.repeated = true
	return true
}

// tryElsewhere tries the other replicas. Nil and nil: none takes the request.
func (rt *route) tryElsewhere() (*http.Response, *kubehttp.Error) {
	for _, peer := range rt.exchange.handler.Peers.Holders(rt.out.Context(), rt.exchange.cluster) {
		resp, err := rt.exchange.relayRequest(peer, rt.out)
		if err == nil {
			rt.exchange.handler.Handed()
			return resp, nil
		}
		rt.last = err
		_, unsent := errors.AsType[unsentError](err)
		switch {
		case rt.out.Context().Err() != nil:
			return nil, rt.failedError(err)
		case errors.Is(err, errElsewhere):
			rt.stale = true
			rt.exchange.handler.Peers.Forget(rt.exchange.cluster)
		case unsent, rt.exchange.sent.n.Load() == 0 && rt.mayRepeat():
			rt.stale = true
			rt.exchange.handler.Peers.Shun(peer.ID)
			rt.exchange.handler.Log.InfoContext(rt.out.Context(), "replica does not answer", "replica", peer.ID, "url", peer.URL, "err", err)
		default:
			return nil, rt.failedError(err)
		}
		if !rt.rewindBody() {
			return nil, rt.failedError(err)
		}
	}
	return nil, nil
}

// mayComeBack tells whether the cluster was connected a moment ago, so that its agent is likely to be dialling. A
// replica that has just started doesn't know: it may not have heard of the other replicas' sessions either.
func (rt *route) mayComeBack() bool {
	if rt.stale && len(rt.exchange.handler.Peers.Others()) > 0 {
		return true
	}
	if rt.missing == nil {
		return false
	}
	gone := rt.missing.Since
	if gone.IsZero() {
		gone = rt.exchange.handler.began
	}
	most := goneFor
	if rt.missing.Broke {
		most = brokeFor
	}
	return rt.missing.Ending || time.Since(gone) < most
}

// waitForChange waits for a change, and a moment for those that come with it. A while without news counts as a change,
// too.
func (rt *route) waitForChange(news <-chan struct{}, deadline <-chan time.Time) bool {
	look := time.NewTimer(lookAnyway)
	defer look.Stop()
	for {
		select {
		case <-news:
			news = nil
			look.Reset(lookAgain)
		case <-look.C:
			return true
		case <-deadline:
			return false
		case <-rt.out.Context().Done():
			return false
		}
	}
}
