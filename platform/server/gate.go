package server

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/platform/identity"
)

const (
	// bodyTime bounds how long a caller may take to send the one message of a unary call.
	bodyTime = 60 * time.Second
	// envelopeBytes is what protocols add around a message.
	envelopeBytes = 64 << 10
)

// gate stands before a Connect service. A gate knows its procedures, so that callers who have no business here are
// refused before a byte of the body is read, and it bounds the bodies of all procedures but those that take streams.
type gate struct {
	procedures map[string]Procedure
	verifier   identity.Verifier
	errors     *connect.ErrorWriter
	maxBody    int64
	next       http.Handler
	ending     http.Handler // next, ended when the server drains.
	lingers    bool
	open       *bodies
}

func newGate(procedures []Procedure, verifier identity.Verifier, readMaxBytes int, next http.Handler, lingers bool, open *bodies) *gate {
	g := &gate{
		procedures: make(map[string]Procedure, len(procedures)),
		verifier:   verifier,
		errors:     connect.NewErrorWriter(),
		maxBody:    int64(readMaxBytes) + envelopeBytes,
		next:       next,
		ending:     endOnDrain(next),
		lingers:    lingers,
		open:       open,
	}
	for _, p := range procedures {
		g.procedures[p.Name] = p
	}
	return g
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, ok := g.procedures[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if err := identity.Admit(g.verifier, p.Role, r); err != nil {
		g.refuse(w, r, err)
		return
	}
	if p.Role&identity.RoleOpen == 0 {
		id, _ := identity.Admitted(r.Context())
		if !meetCaller(r.Context(), id) {
			endConnection(w)
			g.refuse(w, r, connect.NewError(connect.CodeResourceExhausted, errors.New(tooManyConnections)))
			return
		}
	} else {
		if err := g.open.admit(w, r); err != nil {
			g.refuse(w, r, err)
			return
		}
	}
	if p.unary() {
		defer boundBodyTime(w, r, bodyTime).stop()
	}
	// net/http lets a body be no longer than its head says.
	if !p.ClientStreaming && (r.ContentLength < 0 || r.ContentLength > g.maxBody) {
		r.Body = http.MaxBytesReader(w, r.Body, g.maxBody)
	}
	if p.unary() || g.lingers {
		g.next.ServeHTTP(w, r)
		return
	}
	g.ending.ServeHTTP(w, r)
}

func (g *gate) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if !g.errors.IsSupported(r) {
		http.Error(w, err.Error(), http.StatusUnauthorized) // Not a call in any protocol that we know.
		return
	}
	_ = g.errors.Write(w, r, err) // The caller is gone: nobody is left to tell.
}

// boundBodyTime ends the reading of the body after limit, and only that: once the body is read the
// handler may take as long as it needs. Stop it when the handler has returned. The connection is given a
// deadline only when the time is over: to tell HTTP/2 of one beforehand wakes its loop up, twice per call.
func boundBodyTime(w http.ResponseWriter, r *http.Request, limit time.Duration) *timedBody {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	b := &timedBody{ReadCloser: r.Body, w: w}
	b.timer = time.AfterFunc(limit, b.end)
	r.Body = b
	return b
}

type timedBody struct {
	io.ReadCloser
	timer *time.Timer

	mu sync.Mutex          // guards w against the end of the request
	w  http.ResponseWriter // nil once the body is read or the handler has returned
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.stop()
	}
	return n, err
}

// end makes reads fail, those that wait and those to come.
func (b *timedBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w != nil {
		_ = http.NewResponseController(b.w).SetReadDeadline(time.Now()) // Fails where connections have no deadlines.
	}
}

func (b *timedBody) stop() {
	if b == nil {
		return
	}
	b.timer.Stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.w = nil
}
