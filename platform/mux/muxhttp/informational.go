package muxhttp

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
)

// maxPassed bounds the 1xx responses of a request that are passed on.
const maxPassed = 8

// PassInformational returns a context for a request whose first 1xx responses are to be passed on to w, without their
// fields: browsers act on those (Link) as on fields of the final response. Call settle when the final response is
// there: w is not touched any more after that.
func PassInformational(ctx context.Context, w http.ResponseWriter) (_ context.Context, settle func()) {
	var mu sync.Mutex
	settled, passed := false, 0 // guarded by mu
	pass := func(code int, _ textproto.MIMEHeader) error {
		mu.Lock()
		defer mu.Unlock()
		if settled || passed == maxPassed || code == http.StatusContinue { // which each server says for itself
			return nil
		}
		passed++
		h := w.Header()
		before := h.Clone()
		clear(h)
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
