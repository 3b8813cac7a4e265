package muxhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"

	"fairlead.dev/platform/mux"
)

type callerKey struct{}

// CallerFrom returns who asks, of a request that Serve has given to its handler.
func CallerFrom(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// Serve answers the requests of a session with h until the session ends or ctx does, and returns
// when all handlers have. A request's context ends with its stream. A handler that panics resets its
// stream; http.ErrAbortHandler does so without a log line.
func Serve(ctx context.Context, session *mux.Session, h http.Handler, log *slog.Logger) error {
	s := &server{session: session, handler: h, log: log}
	s.waiting.Store(1)
	s.running.Go(func() { s.serveStream(ctx) })
	s.running.Wait()
	return s.err
}

// mostWaiting is how many goroutines wait for streams. A goroutine that has served before has the stack that it takes,
// some 8 KiB: a new one grows it in each request.
const mostWaiting = 32

// server has goroutines that take a stream and serve it themselves. One waits at least, so that streams never do.
type server struct {
	session *mux.Session
	handler http.Handler
	log     *slog.Logger
	running sync.WaitGroup
	waiting atomic.Int64
	ended   sync.Once
	err     error // why; set by ended
}

func (s *server) serveStream(ctx context.Context) {
	for {
		st, err := s.session.Accept(ctx)
		if err != nil {
			s.ended.Do(func() { s.err = err })
			return
		}
		if s.waiting.Add(-1) == 0 {
			s.waiting.Add(1)
			s.running.Go(func() { s.serveStream(ctx) })
		}
		serveStream(st, s.handler, s.log) //nolint:contextcheck // a request's context ends with its stream
		if s.waiting.Add(1) > mostWaiting {
			s.waiting.Add(-1)
			return
		}
	}
}

func serveStream(st *mux.Stream, h http.Handler, log *slog.Logger) {
	defer st.Close()
	req, err := receiveRequest(st)
	if err != nil {
		st.Reset(mux.CodeProtocol, err.Error())
		return
	}
	w := &responseWriter{stream: st, method: req.Method, header: make(http.Header), left: -1}
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler: // a sentinel, by its documentation
			st.Reset(mux.CodeUpstream, w.abortText())
		default:
			log.Error("handler panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			st.Reset(mux.CodeInternal, "the agent failed; see its log")
		}
	}()
	h.ServeHTTP(w, req)
	if err := w.finishResponse(); err != nil {
		st.Reset(mux.CodeInternal, err.Error())
	}
}

func receiveRequest(st *mux.Stream) (*http.Request, error) {
	caller, err := decodeCaller(st.Opening())
	if err != nil {
		return nil, fmt.Errorf("receive request: %w", err)
	}
	p, err := st.ReadHeaders()
	if err != nil {
		return nil, fmt.Errorf("receive request: %w", err)
	}
	head, err := decodeRequest(p)
	if err != nil {
		return nil, fmt.Errorf("receive request: %w", err)
	}
	u, err := url.ParseRequestURI(head.target)
	if err != nil {
		return nil, fmt.Errorf("receive request: %w: target", errHead)
	}
	removeHopByHop(head.header, head.length == 0 && IsUpgrade(head.header))
	ctx := context.WithValue(st.Context(), callerKey{}, caller)
	req := (&http.Request{
		Method: head.method,
		URL:    u,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        head.header,
		ContentLength: head.length,
		RequestURI:    head.target,
		Body:          http.NoBody,
	}).WithContext(ctx)
	if head.length != 0 {
		if len(head.trailers) > 0 {
			req.Trailer = make(http.Header)
			for _, name := range head.trailers {
				req.Trailer[name] = nil
			}
		}
		req.Body = &requestBody{stream: st, left: head.length, trailer: req.Trailer}
	}
	return req, nil
}

// requestBody reads a stream as a request's body.
type requestBody struct {
	stream  *mux.Stream
	left    int64 // -1: unknown
	trailer http.Header
	mu      sync.Mutex
	closed  bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.stream.Read(p)
	if b.left >= 0 {
		if b.left -= int64(n); b.left < 0 {
			return 0, errors.New("read request: longer than its Content-Length")
		}
	}
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if b.left > 0 {
		return n, io.ErrUnexpectedEOF
	}
	if p := b.stream.Trailers(); p != nil && b.trailer != nil {
		h, err := decodeTrailers(p)
		if err != nil {
			return n, fmt.Errorf("read request trailers: %w", err)
		}
		for name := range b.trailer { // only those announced, as in net/http
			b.trailer[name] = h[name]
		}
	}
	return n, io.EOF
}

// Close makes reads fail; the stream itself is closed when the handler has returned.
func (b *requestBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// responseWriter writes a response to a stream. Head and first bytes leave together, and with the last
// ones of a known length the end does, so that a small answer is one batch.
type responseWriter struct {
	stream  *mux.Stream
	method  string
	header  http.Header
	status  int    // 0: not decided
	head    []byte // encoded, not sent
	left    int64  // bytes that the length still promises; -1: unknown
	noBody  bool
	trailer []string // announced
	ended   bool
	cause   string
}

func (w *responseWriter) Header() http.Header { return w.header }

func (w *responseWriter) WriteHeader(status int) {
	switch {
	case w.status != 0:
		return
	case status == http.StatusSwitchingProtocols:
		w.cause = ErrUpgrade.Error()
		panic(http.ErrAbortHandler)
	case status >= 100 && status < 200:
		head := responseHead{status: status, length: -1, header: sendableHeader(w.header)}
		_ = w.stream.Send(mux.Part{Headers: head.encodeHead()}) // the final one will fail, too
		return
	}
	w.status = status
	w.noBody = hasNoBody(w.method, status)
	head := responseHead{status: status, length: -1, header: sendableHeader(w.header)}
	if n, err := strconv.ParseInt(w.header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		head.length = n
	}
	for _, line := range w.header["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if httpguts.ValidHeaderFieldName(name) && httpguts.ValidTrailerHeader(name) {
				w.trailer = append(w.trailer, name)
			}
		}
	}
	if hasHopByHop(head.header) {
		head.header = maps.Clone(head.header)
		RemoveHopByHop(head.header)
	}
	head.trailers = w.trailer
	if w.head = head.encodeHead(); len(w.head) > mux.MaxHead {
		w.cause = "response headers are too large"
		panic(http.ErrAbortHandler)
	}
	if w.left = head.length; w.noBody {
		w.left = -1
	}
}

// sendableHeader returns a header without the fields that can't be sent; trailers by prefix wait for the end. The
// result is h itself if there are none.
func sendableHeader(h http.Header) http.Header {
	out := h
	for k, values := range h {
		if !strings.HasPrefix(k, http.TrailerPrefix) && validField(k, values) == nil {
			continue
		}
		if len(out) == len(h) {
			out = maps.Clone(h)
		}
		delete(out, k)
	}
	return out
}

func (w *responseWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.noBody {
		if w.method == http.MethodHead {
			return len(p), nil
		}
		return 0, http.ErrBodyNotAllowed
	}
	if len(p) == 0 {
		return 0, nil
	}
	if w.left >= 0 && int64(len(p)) > w.left {
		return 0, http.ErrContentLength
	}
	if w.left > 0 {
		w.left -= int64(len(p))
	}
	part := mux.Part{Headers: w.head, Data: p, End: w.left == 0}
	w.head, w.ended = nil, part.End
	if err := w.stream.Send(part); err != nil {
		return 0, err
	}
	return len(p), nil
}

// FlushError sends the head, if it has not been sent. Bodies are never held back.
func (w *responseWriter) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.head == nil {
		return nil
	}
	part := mux.Part{Headers: w.head}
	w.head = nil
	return w.stream.Send(part)
}

// Flush implements http.Flusher.
func (w *responseWriter) Flush() { _ = w.FlushError() }

// finishResponse sends what is left and the end.
func (w *responseWriter) finishResponse() error {
	if w.ended {
		return nil
	}
	if w.status == 0 {
		w.header.Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	}
	if w.left > 0 {
		return fmt.Errorf("response is %d bytes shorter than its Content-Length", w.left)
	}
	part := mux.Part{Headers: w.head, End: true}
	if t := w.declaredTrailers(); len(t) > 0 {
		part.Trailers = appendHeader(nil, t)
	}
	if err := w.stream.Send(part); err != nil && w.stream.Context().Err() == nil {
		return err
	}
	return nil
}

func (w *responseWriter) declaredTrailers() http.Header {
	var t http.Header
	set := func(name string, values []string) {
		if validField(name, values) != nil {
			return
		}
		if t == nil {
			t = make(http.Header)
		}
		t[name] = values
	}
	for _, name := range w.trailer {
		if values, ok := w.header[name]; ok {
			set(name, values)
		}
	}
	for k, values := range w.header {
		if name, ok := strings.CutPrefix(k, http.TrailerPrefix); ok {
			set(http.CanonicalHeaderKey(name), values)
		}
	}
	return t
}

func (w *responseWriter) abortText() string {
	if w.cause != "" {
		return w.cause
	}
	return "the response broke off"
}

// SetAbortCause says in words why a handler that ends with panic(http.ErrAbortHandler) does so; the
// hub's side gets them. Writers that are not Serve's ignore it.
func SetAbortCause(w http.ResponseWriter, cause string) {
	if rw, ok := w.(*responseWriter); ok {
		rw.cause = cause
	}
}
