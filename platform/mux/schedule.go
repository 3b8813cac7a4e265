package mux

// The order in which frames leave. Everything here is called under Session.mu.

// queue has streams in the order of their turns. An empty one holds no array but its own room: those of bursts would
// stay with thousands of idle sessions.
type queue struct {
	waiting []*Stream
	room    [2]*Stream // for waiting, until more streams wait
}

func (q *queue) isWaiting() bool { return len(q.waiting) > 0 }

func (q *queue) addStream(st *Stream) {
	if q.waiting == nil {
		q.waiting = q.room[:0]
	}
	full := len(q.waiting) == cap(q.waiting)
	if q.waiting = append(q.waiting, st); full {
		clear(q.room[:]) // waiting has moved to another array
	}
}

// nextStream takes the first stream out of a queue that has some.
func (q *queue) nextStream() *Stream {
	st := q.waiting[0]
	q.waiting[0] = nil
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	return st
}

// queueControl takes s.control with a frame appended. A peer that makes us queue more than
// maxControl asks without reading: the session ends.
func (s *Session) queueControl(control []byte) {
	if s.closing != nil {
		return // the GOAWAY is the last word
	}
	s.control = control
	if len(s.control) > maxControl {
		s.control = nil
		err := protocolErrorf("%d bytes of control frames not read by the peer", maxControl)
		s.closeWith(CodeLimit, err.Error(), err)
		return
	}
	s.kickSender()
}

// oweCredit queues a WINDOW for a stream.
func (s *Session) oweCredit(st *Stream, credit int64) {
	if st.in.owed == 0 {
		s.owing = append(s.owing, st)
	}
	st.in.owed += credit
	s.kickSender()
}

// scheduleStream gives a stream its place in a queue, if it has something to send: those with little of it go first.
func (s *Session) scheduleStream(st *Stream) {
	if st.out.queued || s.err != nil || !st.isSendable() {
		return
	}
	st.out.queued = true
	if len(st.out.head)+st.out.data.size <= quantum {
		s.interactive.addStream(st)
	} else {
		s.bulk.addStream(st)
	}
}

// hasPending says whether there is something to send.
func (s *Session) hasPending() bool {
	if s.err != nil || s.broken {
		return false
	}
	return len(s.control) > 0 || s.closing == nil && (len(s.owing) > 0 || s.interactive.isWaiting() || s.bulk.isWaiting())
}

// takeBatch appends the next batch to dst: control frames, credit, then a quantum of each stream
// in turn until the batch is full: interactive ones first, but always one of the bulk.
func (s *Session) takeBatch(dst []byte) []byte {
	dst = append(dst, s.control...)
	s.control = s.control[:0]
	if cap(s.control) > smallChunk {
		s.control = nil
	}
	if s.closing != nil {
		return dst
	}
	for _, st := range s.owing {
		if st.in.err == nil && !st.in.ended {
			dst = appendWindow(dst, st.id, uint32(st.in.owed)) // at most maxWindow is ever owed
			st.in.credit += st.in.owed
		}
		st.in.owed = 0
	}
	clear(s.owing)
	s.owing = s.owing[:0]
	for len(dst) < s.target && s.turnFits(&s.interactive, dst) {
		dst = s.appendTurn(&s.interactive, dst)
	}
	for least := true; (least || len(dst) < s.target) && s.turnFits(&s.bulk, dst); least = false {
		dst = s.appendTurn(&s.bulk, dst)
	}
	return dst
}

// turnFits says whether there is a stream in the queue whose turn fits the batch.
func (s *Session) turnFits(q *queue, dst []byte) bool {
	if !q.isWaiting() {
		return false
	}
	o := &q.waiting[0].out
	return len(dst)+len(o.head)+len(o.tail)+quantum+quantum/4 <= MaxBatch // a quarter for the frames' headers
}

// appendTurn appends the quantum of a queue's first stream, which goes to the end of the one that fits it then.
func (s *Session) appendTurn(q *queue, dst []byte) []byte {
	st := q.nextStream()
	st.out.queued = false
	dst = st.emitQuantum(dst)
	s.scheduleStream(st)
	return dst
}

// isSendable says whether the stream could put something into a batch.
func (st *Stream) isSendable() bool {
	o := &st.out
	switch {
	case o.err != nil || o.flushed:
		return false
	case len(o.head) > 0:
		return true
	case o.data.size > 0:
		return o.credit > 0
	default:
		return o.ended
	}
}

// emitQuantum appends the stream's next quantum to dst.
func (st *Stream) emitQuantum(dst []byte) []byte {
	o := &st.out
	if o.err != nil || o.flushed {
		return dst
	}
	if len(o.head) > 0 {
		dst = append(dst, o.head...)
		o.head = nil
		o.opened = true
	}
	for left := int64(quantum); left > 0 && o.data.size > 0 && o.credit > 0; {
		p := o.data.peekFront(int(min(left, o.credit)))
		dst = AppendFrame(dst, TypeData, st.id, p)
		n := len(p)
		o.data.skipBytes(st.session.shared, n)
		o.credit -= int64(n)
		left -= int64(n)
		o.started = true
		st.writable.Broadcast()
	}
	if o.data.size == 0 && o.ended {
		dst = append(dst, o.tail...)
		o.tail = nil
		o.flushed = true
		st.retireStream()
	}
	return dst
}
