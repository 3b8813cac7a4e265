package server

import (
	"errors"
	"io"
	"net/http"
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

// gate stands before a Connect service. It knows its procedures, so that callers who have no business
// here are refused before a byte of the body is read, and it bounds the bodies of all
// procedures but those that take streams.
type gate struct {
	procedures map[string]Procedure
	verifier   identity.Verifier
	errors     *connect.ErrorWriter
	maxBody    int64
	next       http.Handler
	ending     http.Handler // next, ended when the server drains.
	lingers    bool
}

func newGate(procedures []Procedure, verifier identity.Verifier, readMaxBytes int, next http.Handler, lingers bool) *gate {
	g := &gate{
		procedures: make(map[string]Procedure, len(procedures)),
		verifier:   verifier,
		errors:     connect.NewErrorWriter(),
		maxBody:    int64(readMaxBytes) + envelopeBytes,
		next:       next,
		ending:     endOnDrain(next),
		lingers:    lingers,
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
	if err := identity.Admit(g.verifier, p.Role, r.Header); err != nil {
		g.refuse(w, r, err)
		return
	}
	if p.unary() {
		boundBodyTime(w, r, bodyTime)
	}
	if !p.ClientStreaming {
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
// handler may take as long as it needs.
func boundBodyTime(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	control := http.NewResponseController(w)
	if control.SetReadDeadline(time.Now().Add(limit)) != nil {
		return // Not a connection with deadlines.
	}
	r.Body = &timedBody{ReadCloser: r.Body, control: control}
}

type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{}) // It could be set, so it can be lifted.
	}
	return n, err
}
