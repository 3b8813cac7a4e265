package mux

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Session is one side of a connection that carries streams. NewOpener and NewAcceptor make one;
// Run makes it live.
type Session struct {
	carrier Carrier
	opens   bool // this side opens streams, the other accepts
	ours    Hello
	accept  chan *Stream  // acceptor: opened by the peer, not taken yet; as large as the count of streams may be
	ready   chan struct{} // closed when the handshake is over
	gone    chan struct{} // closed when the peer began to drain
	drained chan struct{} // closed when GOAWAY was sent and no stream is left
	done    chan struct{} // closed when the session ended
	cut     chan struct{} // closed when the carrier is closed after that
	shared  *Shared

	// mu guards everything below and every field of the streams that says so. Nothing blocks under it.
	mu      sync.Mutex
	live    bool      // Run was called
	sending bool      // a goroutine is in carrier.Send, or about to
	sent    sync.Cond // no goroutine is any more
	broken  bool      // the line takes nothing any more
	target  int       // length of a batch
	peer    Hello
	greeted bool
	streams map[uint32]*Stream
	lastID  uint32 // opener: last id given; acceptor: last id seen
	heads   int    // bytes of OPEN, HEADERS and TRAILERS that open streams hold
	growth  int64  // bytes that windows may still grow by

	control []byte    // encoded control frames to send
	owing   []*Stream // streams with credit to give back
	// Streams with something to send, in turn: those with little of it, and the others.
	interactive, bulk queue

	heard    time.Time   // last batch
	beat     *time.Timer // the next look at it
	beats    int
	pingSeq  uint64
	pingTime time.Time
	rtt      time.Duration // the last one
	shortest time.Duration // without what waited on the line, about

	sentGoAway bool
	peerGoAway *GoAwayError
	closing    error // set: send what is in control, then end with it
	err        error // set once: the session ended
}

// NewOpener returns the side that opens streams. Properties are told to the peer.
func NewOpener(c Carrier, properties map[string]string) (*Session, error) {
	return NewShared(processBudget).NewOpener(c, properties)
}

// NewAcceptor returns the side that accepts streams. Properties are told to the peer.
func NewAcceptor(c Carrier, properties map[string]string) (*Session, error) {
	return newSession(NewShared(processBudget), c, false, properties)
}

// NewOpener is the package's NewOpener for a session that shares.
func (s *Shared) NewOpener(c Carrier, properties map[string]string) (*Session, error) {
	return newSession(s, c, true, properties)
}

func newSession(shared *Shared, c Carrier, opens bool, properties map[string]string) (*Session, error) {
	if err := validProperties(properties); err != nil {
		return nil, err
	}
	s := &Session{
		carrier: c,
		shared:  shared,
		target:  batchTarget,
		opens:   opens,
		ours: Hello{
			MinVersion: minVersion,
			MaxVersion: maxVersion,
			Window:     initialWindow,
			MaxStreams: maxStreams,
			Properties: properties,
		},
		ready:   make(chan struct{}),
		gone:    make(chan struct{}),
		drained: make(chan struct{}),
		done:    make(chan struct{}),
		cut:     make(chan struct{}),
		streams: make(map[uint32]*Stream),
		growth:  growthBudget,
	}
	s.sent.L = &s.mu
	if opens {
		s.ours.MaxStreams = 0
	} else {
		s.accept = make(chan *Stream, maxStreams*acceptSlack)
	}
	return s, nil
}

// Run shakes hands and keeps the session until it ends: the peer closes, breaks the protocol or is
// silent for too long, Close is called, or ctx ends. Run says why, closes the carrier, and has nothing running when it
// returns. Call it once.
func (s *Session) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.failSession(context.Cause(ctx)) })
	defer stop()
	s.mu.Lock()
	s.heard = time.Now()
	hello := s.ours.Append(nil)
	s.control = append(AppendFrame(nil, TypeHello, 0, hello), s.control...) // Close may have come before
	s.beat = time.AfterFunc(handshakeTimeout, s.onBeat)
	s.live = true
	s.kickSender()
	s.mu.Unlock()

	s.readLoop()
	<-s.cut // the goroutine that ended the session may still be at it
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.sending {
		s.sent.Wait()
	}
	return s.err
}

// Ready is closed when the handshake is over.
func (s *Session) Ready() <-chan struct{} { return s.ready }

// Gone is closed when the peer has begun to drain: it wants no new streams, and soon no session.
func (s *Session) Gone() <-chan struct{} { return s.gone }

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Peer is what the other side said of itself. Valid once Ready is closed.
func (s *Session) Peer() Hello {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peer
}

// Stats is what a session shows of itself.
type Stats struct {
	Streams   int
	RoundTrip time.Duration // 0: not measured yet
	// Heard is when the peer last gave a sign of life.
	Heard time.Time
	// Usable: the handshake is over and neither side is going away.
	Usable bool
}

// Stats returns the current figures.
func (s *Session) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Streams: len(s.streams), RoundTrip: s.rtt, Heard: s.heard, Usable: s.greeted && s.openableError() == nil}
}

// openableError says whether new streams may begin. Callers hold mu.
func (s *Session) openableError() error {
	switch {
	case s.err != nil:
		return fmt.Errorf("session ended: %w", s.err)
	case s.closing != nil || s.sentGoAway || s.peerGoAway != nil:
		return ErrGoAway
	default:
		return nil
	}
}

// Open begins a stream with an OPEN payload and what part holds; all of it leaves in one batch if
// it fits. An error means that nothing of it was sent. The caller must Close the stream.
func (s *Session) Open(open []byte, part Part) (*Stream, error) {
	if len(open) > MaxHead || len(part.Headers) > MaxHead {
		return nil, fmt.Errorf("open stream: head of %d bytes, at most %d fit", max(len(open), len(part.Headers)), MaxHead)
	}
	s.mu.Lock()
	if !s.greeted {
		s.mu.Unlock()
		return nil, ErrNotReady
	}
	if err := s.openableError(); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	if !s.opens || s.lastID == 1<<32-1 {
		s.mu.Unlock()
		return nil, ErrGoAway
	}
	if len(s.streams) >= int(s.peer.MaxStreams) || s.shared.isFull() {
		s.mu.Unlock()
		return nil, ErrTooManyStreams
	}
	s.lastID++
	st := newStream(s, s.lastID)
	st.out.credit = int64(s.peer.Window)
	st.out.head = AppendFrame(make([]byte, 0, 2*headerSize+len(open)+len(part.Headers)), TypeOpen, st.id, open)
	s.streams[st.id] = st
	err := st.sendPart(part)
	s.unlockAndSend()
	if err != nil {
		st.Close()
		return nil, err
	}
	return st, nil
}

// Accept returns the next stream that the peer opened. The caller must Close it.
func (s *Session) Accept(ctx context.Context) (*Stream, error) {
	select {
	case st := <-s.accept:
		return st, nil
	case <-s.done:
		s.mu.Lock()
		defer s.mu.Unlock()
		return nil, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// GoAway tells the peer that no new streams are wanted. Running streams go on.
func (s *Session) GoAway(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sentGoAway || s.err != nil {
		return
	}
	s.sentGoAway = true
	s.queueControl(appendGoAway(s.control, s.lastID, CodeNone, text))
	s.noteDrained()
}

// Drain sends GOAWAY, waits until every stream has ended or ctx has, and closes the session.
func (s *Session) Drain(ctx context.Context, text string) {
	s.GoAway(text)
	select {
	case <-s.drained:
	case <-s.done:
	case <-ctx.Done():
	}
	s.Close(CodeNone, text)
}

// Close ends the session and its streams, after what was sent and with a last word to the peer, which
// has a second to take it. Close does not wait for Run to return.
func (s *Session) Close(code Code, text string) {
	err := ErrClosed
	if text != "" {
		err = fmt.Errorf("%w: %s", ErrClosed, text)
	}
	s.mu.Lock()
	s.closeWith(code, text, err)
	s.mu.Unlock()
}

// closeWith lets the writer send a last GOAWAY; the session ends with err when the peer has taken it.
// Callers hold mu.
func (s *Session) closeWith(code Code, text string, err error) {
	if s.closing != nil || s.err != nil {
		return
	}
	if code == CodeNone {
		code = CodeClosed // CodeNone would only mean that this side drains
	}
	s.closing = err
	s.sentGoAway = true
	s.control = appendGoAway(s.control, s.lastID, code, text)
	s.kickSender()
	time.AfterFunc(closeGrace, func() { s.failSession(err) })
}

// failSession ends the session at once.
func (s *Session) failSession(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	switch {
	case s.closing != nil:
		err = s.closing
	case s.peerGoAway != nil && !errors.Is(err, ErrDead):
		err = s.peerGoAway // the peer said why before the line ended
	case errors.Is(err, io.EOF):
		err = errors.New("peer closed the session")
	}
	s.err = err
	for _, st := range s.streams {
		st.abortBoth(fmt.Errorf("session ended: %w", err))
	}
	s.control, s.owing, s.interactive, s.bulk = nil, nil, queue{}, queue{}
	if s.beat != nil {
		s.beat.Stop()
	}
	s.mu.Unlock()
	close(s.done)
	_ = s.carrier.Close() // the session's own reason is the one that counts
	close(s.cut)
}

// noteDrained closes drained when it is time. Callers hold mu.
func (s *Session) noteDrained() {
	if !s.sentGoAway || len(s.streams) > 0 {
		return
	}
	select {
	case <-s.drained:
	default:
		close(s.drained)
	}
}

// onBeat looks whether the peer lives, each Heartbeat from the handshake on. The acceptor sends a PING each time; the
// opener, which has many sessions, only if it did not hear one, and now and then for the round trip.
func (s *Session) onBeat() {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	silent := time.Since(s.heard)
	if !s.greeted || silent > 2*Heartbeat {
		err := ErrDead
		if !s.greeted {
			err = fmt.Errorf("no HELLO from the peer within %v", handshakeTimeout)
		}
		s.mu.Unlock()
		s.failSession(err)
		return
	}
	if !s.opens || silent > Heartbeat+Heartbeat/5 || s.beats%tripEvery == 0 {
		s.pingSeq++
		s.pingTime = time.Now()
		s.queueControl(appendPing(s.control, TypePing, s.pingSeq))
	}
	s.beats++
	s.beat.Reset(Heartbeat)
	s.mu.Unlock()
}

func (s *Session) readLoop() {
	for {
		batch, err := s.carrier.Receive()
		if err != nil {
			s.failSession(fmt.Errorf("receive from peer: %w", err))
			return
		}
		s.mu.Lock()
		if s.err != nil {
			s.mu.Unlock()
			return
		}
		err = s.handleBatch(batch)
		bye, over := errors.AsType[*GoAwayError](err)
		if err != nil && !over {
			s.closeWith(codeOf(err), err.Error(), err)
		}
		s.mu.Unlock()
		if over {
			s.failSession(bye)
			return
		}
	}
}

func codeOf(err error) Code {
	if _, ok := errors.AsType[*VersionError](err); ok {
		return CodeVersion
	}
	return CodeProtocol
}

// handleBatch takes in a batch. handle never waits: what it can't hold ends the session. Callers hold mu.
func (s *Session) handleBatch(batch []byte) error {
	if len(batch) > MaxBatch {
		return protocolErrorf("batch of %d bytes, at most %d", len(batch), MaxBatch)
	}
	s.heard = time.Now()
	for len(batch) > 0 {
		f, rest, err := DecodeFrame(batch)
		if err != nil {
			return err
		}
		batch = rest
		switch {
		case s.closing != nil && f.Type != TypeGoAway: // too late
		case !s.greeted:
			err = s.onHello(f)
		default:
			err = s.onFrame(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) onHello(f Frame) error {
	if f.Type == TypeGoAway {
		return s.onGoAway(f)
	}
	if f.Type != TypeHello {
		return protocolErrorf("%v frame before HELLO", f.Type)
	}
	h, err := DecodeHello(f.Payload)
	if err != nil {
		return err
	}
	if _, err := negotiateVersion(s.ours, h); err != nil {
		return err
	}
	s.peer = h
	s.greeted = true
	if s.beat != nil {
		s.beat.Reset(0) // the first round trip is measured at once
	}
	close(s.ready)
	return nil
}

func (s *Session) onFrame(f Frame) error {
	switch f.Type {
	case TypePing:
		s.queueControl(appendPing(s.control, TypePong, binary.BigEndian.Uint64(f.Payload)))
		return nil
	case TypePong:
		if binary.BigEndian.Uint64(f.Payload) == s.pingSeq {
			s.rtt = max(time.Since(s.pingTime), time.Microsecond)
			if s.shortest == 0 || s.rtt < s.shortest {
				s.shortest = s.rtt
			} else {
				s.shortest += (s.rtt - s.shortest) / 8 // the way may have become longer
			}
		}
		return nil
	case TypeGoAway:
		return s.onGoAway(f)
	case TypeHello:
		return protocolErrorf("second HELLO")
	case TypeOpen:
		return s.onOpen(f)
	default:
		return s.onStreamFrame(f)
	}
}

func (s *Session) onOpen(f Frame) error {
	if s.opens {
		return protocolErrorf("OPEN from the side that accepts")
	}
	if f.Stream <= s.lastID {
		return protocolErrorf("OPEN of stream %d after %d", f.Stream, s.lastID)
	}
	if s.sentGoAway {
		// The frame crossed our GOAWAY, which told the last id that counts.
		s.queueControl(appendReset(s.control, f.Stream, CodeRefused, "the agent is going away"))
		return nil
	}
	s.lastID = f.Stream
	if len(s.streams) >= maxStreams*acceptSlack || s.heads+len(f.Payload) > headBudget || s.shared.isFull() {
		s.queueControl(appendReset(s.control, f.Stream, CodeRefused, "too many streams"))
		return nil
	}
	st := newStream(s, f.Stream)
	st.out.credit = int64(s.peer.Window)
	st.out.opened = true
	st.opening = append([]byte(nil), f.Payload...)
	st.heads = len(f.Payload)
	s.heads += len(f.Payload)
	s.streams[f.Stream] = st
	s.accept <- st // has room: as many places as streams
	return nil
}

func (s *Session) onStreamFrame(f Frame) error {
	st := s.streams[f.Stream]
	if st == nil {
		if f.Stream > s.lastID && !s.sentGoAway {
			return protocolErrorf("%v frame on stream %d, which is not open", f.Type, f.Stream)
		}
		return nil // the frame crossed the end of the stream
	}
	switch f.Type {
	case TypeHeaders:
		return st.onHeaders(f.Payload)
	case TypeData:
		return st.onData(f.Payload)
	case TypeHalfClose:
		return st.onEnd(nil)
	case TypeTrailers:
		return st.onEnd(f.Payload)
	case TypeReset:
		st.onReset(Code(binary.BigEndian.Uint16(f.Payload)), string(f.Payload[2:]))
		return nil
	case TypeWindow:
		return st.onWindow(binary.BigEndian.Uint32(f.Payload))
	default:
		return protocolErrorf("unexpected %v frame", f.Type)
	}
}

// onGoAway returns the peer's reason as an error if it ends the session now.
func (s *Session) onGoAway(f Frame) error {
	last := binary.BigEndian.Uint32(f.Payload)
	reason := &GoAwayError{Code: Code(binary.BigEndian.Uint16(f.Payload[4:])), Text: string(f.Payload[6:])}
	first := s.peerGoAway == nil
	s.peerGoAway = reason
	if reason.Code != CodeNone {
		return reason
	}
	if first {
		close(s.gone)
	}
	for id, st := range s.streams {
		if s.opens && id > last {
			st.onReset(CodeRefused, "the peer is going away")
		}
	}
	return nil
}

// sendFailed ends the session. A carrier that the peer has ended says no more to whoever sends than
// io.EOF: why it did is for Receive to tell, which gets the time for it.
func (s *Session) sendFailed(err error) {
	if !errors.Is(err, io.EOF) {
		s.failSession(err)
		return
	}
	time.AfterFunc(closeGrace, func() { s.failSession(err) })
}
