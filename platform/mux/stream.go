package mux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Stream is one exchange. Reading and writing may happen at the same time; each of the two from
// one goroutine. The owner of a stream must Close it.
type Stream struct {
	session *Session
	id      uint32
	opening []byte

	// All below: guarded by session.mu.
	ctx      context.Context // ends when the stream is reset, by either side, or closed; nil: nobody has asked for it
	cancel   context.CancelCauseFunc
	cause    error // why ctx has ended, or would have
	readable sync.Cond
	writable sync.Cond
	in       inbound
	out      outbound
	heads    int  // bytes of session.heads that are this stream's
	reset    bool // by either side, or with the session
	closed   bool // by its owner
	retired  bool // out of session.streams
}

type inbound struct {
	headers  [][]byte
	data     buffer
	trailers []byte
	started  bool  // DATA or the end was seen
	ended    bool  // HALF_CLOSE or TRAILERS was seen
	err      error // why reading fails
	credit   int64 // bytes that the peer may still send
	window   int64 // bytes that it may have sent and not read, at most
	read     int64 // taken by the reader and not given back as credit yet
	owed     int64 // credit that waits for the writer
	grown    int64 // of session.growth
	epoch    time.Time
}

type outbound struct {
	head    []byte // encoded OPEN and HEADERS
	data    buffer
	tail    []byte // encoded end
	credit  int64
	opened  bool // the peer knows of the stream
	started bool // DATA was sent
	ended   bool // no part may be added
	flushed bool // all of it was sent
	queued  bool // in session.queue
	err     error
}

func newStream(s *Session, id uint32) *Stream {
	st := &Stream{session: s, id: id}
	st.readable.L, st.writable.L = &s.mu, &s.mu
	st.in.credit, st.in.window, st.in.epoch = initialWindow, initialWindow, time.Now()
	return st
}

// ID is the stream's number, unique in its session.
func (st *Stream) ID() uint32 { return st.id }

// Opening is the OPEN payload, on the accepting side.
func (st *Stream) Opening() []byte { return st.opening }

// Context ends when the stream is reset by either side, closed, or its session ended.
func (st *Stream) Context() context.Context {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	if st.ctx == nil {
		st.ctx, st.cancel = context.WithCancelCause(context.Background())
		if st.cause != nil {
			st.cancel(st.cause)
		}
	}
	return st.ctx
}

// endContext ends the context. Callers hold mu.
func (st *Stream) endContext(cause error) {
	if st.cause == nil {
		st.cause = cause
	}
	if st.cancel != nil {
		st.cancel(cause)
	}
}

// Part is something to send, in this order: HEADERS, DATA, the end with or without TRAILERS.
type Part struct {
	Headers  []byte // nil: none
	Data     []byte
	End      bool
	Trailers []byte // with End: not nil for TRAILERS, nil for HALF_CLOSE
}

// Send queues a part. Send waits while the peer gives no credit and the stream's buffer is full, and fails when the
// stream is reset meanwhile.
func (st *Stream) Send(p Part) error {
	st.session.mu.Lock()
	err := st.sendPart(p)
	if st.out.data.size > quantum {
		st.session.kickSender() // a writer of so much gets the next ready meanwhile
		st.session.mu.Unlock()
		return err
	}
	st.session.unlockAndSend()
	return err
}

func (st *Stream) sendPart(p Part) error {
	o := &st.out
	if err := st.sendErr(); err != nil {
		return err
	}
	if p.Headers != nil {
		if o.started || o.data.size > 0 {
			return errors.New("send HEADERS: after DATA")
		}
		if len(p.Headers) > MaxHead || len(o.head)+len(p.Headers) > maxStreamHead {
			return fmt.Errorf("send HEADERS: %d bytes, at most %d fit", len(p.Headers), MaxHead)
		}
		o.head = AppendFrame(slices.Grow(o.head, headerSize+len(p.Headers)), TypeHeaders, st.id, p.Headers)
	}
	if len(p.Trailers) > MaxHead {
		return fmt.Errorf("send TRAILERS: %d bytes, at most %d fit", len(p.Trailers), MaxHead)
	}
	for data := p.Data; len(data) > 0; {
		for o.data.size >= st.sendRoom() {
			st.session.scheduleStream(st)
			st.session.kickSender()
			st.writable.Wait()
			if err := st.sendErr(); err != nil {
				return err
			}
		}
		n := min(len(data), st.sendRoom()-o.data.size)
		o.data.appendBytes(st.session.shared, data[:n])
		data = data[n:]
	}
	if p.End {
		o.ended = true
		if p.Trailers != nil {
			o.tail = AppendFrame(nil, TypeTrailers, st.id, p.Trailers)
		} else {
			o.tail = appendHeader(nil, TypeHalfClose, st.id, 0)
		}
	}
	st.session.scheduleStream(st)
	return nil
}

// sendRoom is how much may wait to be sent.
func (st *Stream) sendRoom() int {
	if st.session.shared.isFull() {
		return quantum
	}
	return sendBuffer
}

func (st *Stream) sendErr() error {
	switch {
	case st.out.err != nil:
		return st.out.err
	case st.out.ended:
		return fmt.Errorf("send: %w", ErrClosed)
	default:
		return nil
	}
}

// Write sends DATA.
func (st *Stream) Write(p []byte) (int, error) {
	if err := st.Send(Part{Data: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CloseWrite ends this side's direction cleanly.
func (st *Stream) CloseWrite() error { return st.Send(Part{End: true}) }

// ReadHeaders returns the next HEADERS payload. ReadHeaders waits for it; io.EOF: DATA or the end came instead.
func (st *Stream) ReadHeaders() ([]byte, error) {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	for {
		switch {
		case len(st.in.headers) > 0:
			h := st.in.headers[0]
			st.in.headers = st.in.headers[1:]
			return h, nil
		case st.in.err != nil:
			return nil, st.in.err
		case st.in.started:
			return nil, io.EOF
		}
		st.readable.Wait()
	}
}

// Read reads DATA. io.EOF only after the peer ended its direction cleanly.
func (st *Stream) Read(p []byte) (int, error) {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	for {
		switch {
		case st.in.data.size > 0:
			n := st.in.data.readInto(st.session.shared, p)
			st.giveBack(int64(n))
			return n, nil
		case st.closed: // the rest is dropped
			return 0, fmt.Errorf("read: %w", ErrClosed)
		case st.in.ended:
			return 0, io.EOF
		case st.in.err != nil:
			return 0, st.in.err
		}
		st.readable.Wait()
	}
}

// giveBack returns credit for n bytes that were read, and lets the window grow when half of it was
// read within two round trips: then the window is what holds the sender back.
func (st *Stream) giveBack(n int64) {
	in, s := &st.in, st.session
	in.read += n
	if in.ended || in.err != nil || in.read < in.window/2 {
		return
	}
	credit := in.read
	in.read = 0
	now := time.Now()
	if now.Sub(in.epoch) < 2*max(s.shortest, growthFloor) {
		more := s.mayGrow(in.window)
		s.growth -= more
		in.grown += more
		in.window += more
		credit += more
	}
	in.epoch = now
	s.oweCredit(st, credit)
}

// mayGrow is how much a window may grow by: it at most doubles.
func (s *Session) mayGrow(window int64) int64 {
	most := int64(maxWindow)
	if s.shortest < nearTrip {
		most = nearWindow
	}
	if s.shared.isHalfFull() {
		return 0
	}
	return max(0, min(window, most-window, s.growth))
}

// Buffered is how many bytes Read would return without waiting.
func (st *Stream) Buffered() int {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	return st.in.data.size
}

// Trailers is the peer's TRAILERS payload; nil if there were none. Valid once Read returned io.EOF.
func (st *Stream) Trailers() []byte {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	return st.in.trailers
}

// Reset gives the stream up in both directions; what was not sent is dropped.
func (st *Stream) Reset(code Code, text string) {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	st.resetLocked(code, text)
}

func (st *Stream) resetLocked(code Code, text string) {
	if st.reset || st.in.ended && st.out.flushed {
		return
	}
	if st.out.opened {
		st.session.queueControl(appendReset(st.session.control, st.id, code, text))
	}
	st.abortBoth(fmt.Errorf("stream reset: %w", ErrClosed))
}

// Close ends the owner's interest. Data that was sent and ended still leaves; a stream that is not over is reset. Close
// never waits.
func (st *Stream) Close() {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.closed {
		return
	}
	st.closed = true
	switch {
	case st.reset:
	case !st.out.ended:
		st.resetLocked(CodeCancel, "")
	case !st.in.ended:
		// The answer is complete and leaves first; the rest of the question isn't needed.
		stop := appendReset(nil, st.id, CodeNone, "")
		if st.out.flushed {
			s.queueControl(append(s.control, stop...))
			st.reset = true
		} else {
			st.out.tail = append(st.out.tail, stop...)
		}
		st.in.err = ErrClosed
	}
	st.in.data.freeChunks(s.shared)
	st.endContext(ErrClosed)
	st.readable.Broadcast()
	st.retireStream()
}

// abortBoth makes both directions fail, but for what the peer ended cleanly before. Callers hold mu.
func (st *Stream) abortBoth(err error) {
	st.reset = true
	pool := st.session.shared
	if !st.in.ended && st.in.err == nil {
		st.in.err = err
		st.in.data.freeChunks(pool)
		st.in.headers = nil
	}
	if st.out.err == nil {
		st.out.err = err
	}
	st.out.head, st.out.tail = nil, nil
	st.out.data.freeChunks(pool)
	st.endContext(err)
	st.readable.Broadcast()
	st.writable.Broadcast()
	st.retireStream()
}

// retireStream forgets the stream once it is over and its owner has closed it. Callers hold mu.
func (st *Stream) retireStream() {
	over := st.reset || st.out.flushed && (st.in.ended || st.in.err != nil)
	if st.retired || !st.closed || !over {
		return
	}
	st.retired = true
	s := st.session
	delete(s.streams, st.id)
	s.heads -= st.heads
	s.growth += st.in.grown
	s.noteDrained()
}

func (st *Stream) takeHead(n int) bool {
	if st.heads+n > maxStreamHead || st.session.heads+n > headBudget {
		st.resetLocked(CodeLimit, "headers are too large")
		return false
	}
	st.heads += n
	st.session.heads += n
	return true
}

func (st *Stream) onHeaders(p []byte) error {
	if st.in.started {
		return protocolErrorf("HEADERS after DATA on stream %d", st.id)
	}
	if st.reset || st.closed || !st.takeHead(len(p)+1) {
		return nil
	}
	st.in.headers = append(st.in.headers, append(make([]byte, 0, len(p)), p...))
	st.readable.Broadcast()
	return nil
}

func (st *Stream) onData(p []byte) error {
	if st.in.ended {
		return protocolErrorf("DATA after the end of stream %d", st.id)
	}
	if st.reset || st.closed {
		return nil
	}
	if int64(len(p)) > st.in.credit {
		return protocolErrorf("DATA of %d bytes on stream %d, which has credit for %d", len(p), st.id, st.in.credit)
	}
	if st.in.data.size > smallChunk && st.session.shared.isFull() {
		st.resetLocked(CodeLimit, "too much waits to be read here")
		return nil
	}
	st.in.started = true
	st.in.credit -= int64(len(p))
	st.in.data.appendBytes(st.session.shared, p)
	st.readable.Broadcast()
	return nil
}

func (st *Stream) onEnd(trailers []byte) error {
	if st.in.ended {
		return protocolErrorf("stream %d ended twice", st.id)
	}
	if st.reset || trailers != nil && !st.takeHead(len(trailers)) {
		return nil
	}
	st.in.started, st.in.ended = true, true
	if trailers != nil {
		st.in.trailers = append(make([]byte, 0, len(trailers)), trailers...)
	}
	st.readable.Broadcast()
	st.retireStream()
	return nil
}

func (st *Stream) onReset(code Code, text string) {
	if !st.reset {
		st.abortBoth(&ResetError{Code: code, Text: text})
	}
}

func (st *Stream) onWindow(n uint32) error {
	st.out.credit += int64(n)
	if st.out.credit > maxCredit {
		return protocolErrorf("credit of stream %d beyond %d", st.id, int64(maxCredit))
	}
	st.session.scheduleStream(st)
	st.session.kickSender()
	return nil
}
