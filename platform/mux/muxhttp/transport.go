package muxhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/mux"
)

// copyBuffer is what is read at once from a body: a quantum round of the session fits.
const copyBuffer = 32 << 10

// maxInformational bounds the 1xx responses before the final one.
const maxInformational = 16

// answerTime bounds the wait for an answer to begin, once all of the request is sent. An API server gives
// up on its own after a minute; what has begun may take as long as it likes.
const answerTime = 2 * time.Minute

// ErrNoAnswer: the answer did not begin in time. Whether anything was done is not known.
var ErrNoAnswer = fmt.Errorf("no answer within %v", answerTime)

// UnsentError says that nothing of a request was sent: another session can be tried, unless the
// request itself is what is wrong. The request's body was not read; it is closed.
type UnsentError struct {
	Err     error
	Invalid bool // the request can't be sent at all
}

func (e *UnsentError) Error() string { return "send request: " + e.Err.Error() }
func (e *UnsentError) Unwrap() error { return e.Err }

// Transport sends requests over a session on behalf of a caller. Only path and query of a request's
// URL are sent, as url.URL.RequestURI gives them. A request with IsUpgrade and no body asks for another protocol; the
// body of a 101 response is an io.ReadWriteCloser with CloseWrite, for Splice.
type Transport struct {
	Session *mux.Session
	Caller  Caller
}

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	body := req.Body
	if body == http.NoBody {
		body = nil
	}
	upgrade := body == nil && IsUpgrade(req.Header)
	st, err := t.openStream(req, body == nil, upgrade)
	if err != nil {
		if body != nil {
			_ = body.Close()
		}
		return nil, err
	}
	ctx := req.Context()
	stop := context.AfterFunc(ctx, func() { st.Reset(mux.CodeCancel, "") })
	patience := &patience{stream: st}
	if body == nil {
		patience.beginWait()
	} else {
		go sendBody(st, body, req, patience) // ends with the body, which its owner closes, or with the stream
	}
	resp, err := t.receiveHead(st, req, upgrade)
	if patience.endWait() && err != nil {
		err = ErrNoAnswer
	}
	if err != nil {
		stop()
		st.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = &upgraded{Stream: st, ctx: ctx, stop: stop}
		return resp, nil
	}
	if upgrade {
		_ = st.CloseWrite() // the answer is a plain one; if the stream has failed, reading it tells
	}
	length := resp.ContentLength
	if hasNoBody(req.Method, resp.StatusCode) {
		length = -1
	}
	resp.Body = &responseBody{stream: st, ctx: ctx, stop: stop, left: length, trailer: &resp.Trailer}
	return resp, nil
}

// openStream begins the stream. A request that asks for an upgrade has no body and no end: what follows its 101 is
// for the other protocol.
func (t Transport) openStream(req *http.Request, bodyless, upgrade bool) (*mux.Stream, error) {
	header := req.Header
	if hasHopByHop(header) {
		header = maps.Clone(header)
		removeHopByHop(header, upgrade)
	}
	if err := errors.Join(validHeader(header), validHeader(req.Trailer)); err != nil {
		return nil, &UnsentError{Err: err, Invalid: true}
	}
	head := requestHead{
		method: req.Method,
		target: req.URL.RequestURI(),
		length: req.ContentLength,
		header: header,
	}
	if head.method == "" {
		head.method = http.MethodGet
	}
	switch {
	case bodyless:
		head.length = 0
	case head.length <= 0:
		head.length = -1 // as net/http: 0 with a body means unknown
	}
	if !bodyless {
		head.trailers = sortedKeys(req.Trailer)
	}
	var room [2 * usualHead]byte
	caller, encoded := t.Caller.appendCaller(room[:0:usualHead]), head.appendHead(room[usualHead:usualHead])
	if size := max(len(caller), len(encoded)); size > mux.MaxHead {
		return nil, &UnsentError{Err: fmt.Errorf("headers of %d bytes, at most %d fit", size, mux.MaxHead), Invalid: true}
	}
	st, err := t.Session.Open(caller, mux.Part{Headers: encoded, End: bodyless && !upgrade})
	if err != nil {
		return nil, &UnsentError{Err: err}
	}
	return st, nil
}

// sendBody streams the request's body, then its trailers.
func sendBody(st *mux.Stream, body io.ReadCloser, req *http.Request, patience *patience) {
	defer body.Close()
	defer patience.beginWait()
	if _, err := io.CopyBuffer(onlyWriter{st}, onlyReader{body}, make([]byte, copyBuffer)); err != nil {
		st.Reset(mux.CodeCancel, "request body broke off")
		return
	}
	part := mux.Part{End: true}
	if len(req.Trailer) > 0 && validHeader(req.Trailer) == nil {
		part.Trailers = appendHeader(nil, req.Trailer)
	}
	if err := st.Send(part); err != nil {
		st.Reset(mux.CodeCancel, "request body broke off")
	}
}

// patience gives a stream up whose answer does not begin in time.
type patience struct {
	stream *mux.Stream

	mu    sync.Mutex // guards what follows
	timer *time.Timer
	ended bool
	lost  bool
}

// beginWait starts the wait: all of the request is sent.
func (p *patience) beginWait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.timer = time.AfterFunc(answerTime, p.loseWait)
	}
}

func (p *patience) loseWait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.lost = true
		p.stream.Reset(mux.CodeCancel, ErrNoAnswer.Error())
	}
}

// endWait stops the wait and says whether it was lost.
func (p *patience) endWait() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
	return p.lost
}

type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// receiveHead waits for the final response head.
func (t Transport) receiveHead(st *mux.Stream, req *http.Request, upgrade bool) (*http.Response, error) {
	for range maxInformational {
		p, err := st.ReadHeaders()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("stream ended without a response")
			}
			return nil, fmt.Errorf("receive response: %w", err)
		}
		head, err := decodeResponse(p)
		if err != nil {
			return nil, fmt.Errorf("receive response: %w", err)
		}
		switch {
		case head.status == http.StatusSwitchingProtocols && !upgrade:
			return nil, fmt.Errorf("receive response: %w", ErrUpgrade)
		case head.status == http.StatusSwitchingProtocols:
			return newResponse(head, req), nil
		case head.status < 200:
			if err := passInformational(req.Context(), head); err != nil {
				return nil, err
			}
		default:
			return newResponse(head, req), nil
		}
	}
	return nil, fmt.Errorf("receive response: more than %d informational ones", maxInformational)
}

func passInformational(ctx context.Context, head responseHead) error {
	trace := httptrace.ContextClientTrace(ctx)
	if trace == nil || trace.Got1xxResponse == nil {
		return nil
	}
	return trace.Got1xxResponse(head.status, textproto.MIMEHeader(head.header))
}

func newResponse(head responseHead, req *http.Request) *http.Response {
	removeHopByHop(head.header, head.status == http.StatusSwitchingProtocols)
	if head.length >= 0 {
		head.header.Set("Content-Length", strconv.FormatInt(head.length, 10))
	}
	resp := &http.Response{
		Status:     strings.TrimSpace(strconv.Itoa(head.status) + " " + http.StatusText(head.status)),
		StatusCode: head.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        head.header,
		ContentLength: head.length,
		Request:       req,
	}
	if len(head.trailers) > 0 {
		resp.Trailer = make(http.Header, len(head.trailers))
		for _, name := range head.trailers {
			resp.Trailer[name] = nil
		}
	}
	return resp
}

// responseBody reads a stream as a response's body.
type responseBody struct {
	stream  *mux.Stream
	ctx     context.Context
	stop    func() bool
	left    int64 // bytes that the length still promises; -1: nothing
	trailer *http.Header
	done    bool
}

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.stream.Read(p)
	switch {
	case err == nil:
		if b.left >= 0 {
			if b.left -= int64(n); b.left < 0 {
				return 0, errors.New("read response: longer than its Content-Length")
			}
		}
		return n, nil
	case errors.Is(err, io.EOF):
		return n, b.endBody()
	case b.ctx.Err() != nil:
		return n, context.Cause(b.ctx)
	default:
		return n, fmt.Errorf("read response: %w", err)
	}
}

func (b *responseBody) endBody() error {
	if b.left > 0 {
		return fmt.Errorf("read response: %d bytes less than its Content-Length: %w", b.left, io.ErrUnexpectedEOF)
	}
	if p := b.stream.Trailers(); p != nil && !b.done {
		h, err := decodeTrailers(p)
		if err != nil {
			return fmt.Errorf("read trailers: %w", err)
		}
		if *b.trailer == nil {
			*b.trailer = make(http.Header, len(h))
		}
		maps.Copy(*b.trailer, h)
	}
	b.done = true
	return io.EOF
}

// Buffered is how many bytes can be read without waiting.
func (b *responseBody) Buffered() int { return b.stream.Buffered() }

func (b *responseBody) Close() error {
	b.stop()
	b.stream.Close()
	return nil
}
