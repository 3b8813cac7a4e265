// Package smallframes sends messages in small pieces. TLS and HTTP/2 keep buffers as large as the largest record
// and frame that a connection ever met, and an agent's connection stays open for days: a hub with thousands
// of them would for ever hold thrice the largest message of each, for messages that are seldom.
package smallframes

import (
	"io"
	"net/http"
)

// Size is that of a piece. Each becomes a frame and a record of its own.
const Size = 1 << 10

// Handler has the answers of a handler written in pieces.
func Handler(next http.Handler) http.Handler { return &handler{next} }

type handler struct{ next http.Handler }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.next.ServeHTTP(writer{w}, r) }

type writer struct{ http.ResponseWriter }

// Write implements io.Writer.
func (w writer) Write(p []byte) (written int, err error) {
	for len(p) > Size {
		n, err := w.ResponseWriter.Write(p[:Size])
		written += n
		if err != nil {
			return written, err
		}
		w.Flush() // else net/http makes one frame of two
		p = p[n:]
	}
	n, err := w.ResponseWriter.Write(p)
	return written + n, err
}

// Flush implements http.Flusher. A writer that can't flush fails when it writes.
func (w writer) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (w writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Transport has the bodies of requests sent in pieces, by the default transport if next is nil.
func Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return transport{next}
}

type transport struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.ContentLength >= 0 && req.ContentLength <= Size {
		return t.RoundTripper.RoundTrip(req)
	}
	cut := req.WithContext(req.Context()) // a copy: a transport changes nothing of its caller's
	cut.Body = body{req.Body}
	if again := req.GetBody; again != nil {
		cut.GetBody = func() (io.ReadCloser, error) {
			b, err := again()
			if err != nil {
				return nil, err
			}
			return body{b}, nil
		}
	}
	return t.RoundTripper.RoundTrip(cut)
}

type body struct{ io.ReadCloser }

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) { return b.ReadCloser.Read(p[:min(len(p), Size)]) }
