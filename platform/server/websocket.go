package server

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
)

// apart serves a request for a WebSocket in a goroutine of its own. Once the handler has taken the connection over,
// net/http's goroutine ends, and its buffers and the stack that a handshake made large go with it: WebSockets stay for
// hours, thousands of them. All that stands around the handler stays around it: the drain waits for the handler, and a
// revoked token ends it.
type apart struct {
	drain *drain
	next  http.Handler
}

func (a *apart) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		a.next.ServeHTTP(w, r)
		return
	}
	// The request's own context ends with net/http's goroutine.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	forget := context.AfterFunc(a.drain.ctx, cancel) //nolint:contextcheck // the end of all requests
	u := &upgrading{response: w, taken: make(chan struct{})}
	u.keep = context.AfterFunc(r.Context(), cancel)
	done := make(chan any, 1) // what the handler panicked with
	go func() {
		defer func() {
			forget()
			cancel()
			done <- recover()
		}()
		a.next.ServeHTTP(u, r.WithContext(ctx))
	}()
	select {
	case <-u.taken:
	case panicked := <-done:
		if panicked != nil {
			panic(panicked)
		}
	}
}

// upgrading is the answer to a request for a WebSocket: net/http's until the connection is taken over, and then what is
// left of it, the connection's deadlines.
type upgrading struct {
	taken chan struct{} // closed when the connection is taken over
	keep  func() bool   // keeps the handler's context from ending with the request's

	mu       sync.Mutex // guards response
	response http.ResponseWriter
}

// Unwrap is for http.ResponseController.
func (u *upgrading) Unwrap() http.ResponseWriter {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.response
}

// Header implements http.ResponseWriter.
func (u *upgrading) Header() http.Header { return u.Unwrap().Header() }

// Write implements http.ResponseWriter.
func (u *upgrading) Write(p []byte) (int, error) { return u.Unwrap().Write(p) }

// WriteHeader implements http.ResponseWriter.
func (u *upgrading) WriteHeader(status int) { u.Unwrap().WriteHeader(status) }

// Hijack implements http.Hijacker.
func (u *upgrading) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(u.Unwrap()).Hijack()
	if err != nil {
		return nil, nil, err
	}
	u.keep()
	u.mu.Lock()
	u.response = takenOver{conn}
	u.mu.Unlock()
	close(u.taken)
	return conn, rw, nil
}

// takenOver answers for a connection that is a handler's.
type takenOver struct{ net.Conn }

func (takenOver) Header() http.Header { return http.Header{} }

func (takenOver) Write([]byte) (int, error) { return 0, http.ErrHijacked }

func (takenOver) WriteHeader(int) {}
