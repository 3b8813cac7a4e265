package muxhttp

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
)

// PassInformational returns a context for a request whose 1xx responses are to be passed on to w. Call settle when the
// final response is there: w is not touched any more after that.
func PassInformational(ctx context.Context, w http.ResponseWriter) (_ context.Context, settle func()) {
	var mu sync.Mutex
	settled := false // guarded by mu
	pass := func(code int, header textproto.MIMEHeader) error {
		mu.Lock()
		defer mu.Unlock()
		if settled || code == http.StatusContinue { // which each server says for itself
			return nil
		}
		h := w.Header()
		before := h.Clone()
		maps.Copy(h, http.Header(header))
		RemoveHopByHop(h)
		w.WriteHeader(code)
		clear(h)
		maps.Copy(h, before)
		return nil
	}
	settle = func() {
		mu.Lock()
		defer mu.Unlock()
		settled = true
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: pass}), settle
}
