package mux

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// The model test drives two sessions as plain state machines, without goroutines: what one emits
// waits on a line until the test delivers it. Operations that would wait are not tried.

type side struct {
	s    *Session
	line [][]byte // batches sent and not delivered
}

// exchange is one stream, with what each end must get to read.
type exchange struct {
	ends    [2]*Stream
	expect  [2][]byte // written by the other end and not read
	ended   [2]bool   // this end has ended its direction
	dropped bool      // reset by one of them
	pattern byte
}

type model struct {
	sides   [2]*side // opener, acceptor
	streams []*exchange
}

func (m *model) emit(i int) {
	s := m.sides[i].s
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.takeBatch(nil); len(b) > 0 {
		m.sides[i].line = append(m.sides[i].line, b)
	}
}

func (m *model) deliver(t *rapid.T, i int) {
	from, to := m.sides[i], m.sides[1-i].s
	if len(from.line) == 0 {
		return
	}
	b := from.line[0]
	from.line = from.line[1:]
	to.mu.Lock()
	defer to.mu.Unlock()
	if len(b) > MaxBatch {
		t.Fatalf("batch of %d bytes", len(b))
	}
	if err := to.handleBatch(b); err != nil || to.closing != nil {
		t.Fatalf("honest peer refused: %v, %v", err, to.closing)
	}
}

// settle moves everything until both sides have nothing more to say.
func (m *model) settle(t *rapid.T) {
	for range 10_000 {
		m.emit(0)
		m.emit(1)
		if len(m.sides[0].line)+len(m.sides[1].line) == 0 {
			return
		}
		m.deliver(t, 0)
		m.deliver(t, 1)
	}
	t.Fatal("sessions never come to rest")
}

func (m *model) open(t *rapid.T) {
	opener, acceptor := m.sides[0].s, m.sides[1].s
	st, err := opener.Open([]byte("open"), Part{Headers: []byte("head")})
	if err != nil {
		t.Fatal(err)
	}
	m.settleOpen(t, st.id)
	m.streams = append(m.streams, &exchange{ends: [2]*Stream{st, <-acceptor.accept}, pattern: byte(st.id)})
}

// settleOpen delivers until the acceptor has seen the OPEN.
func (m *model) settleOpen(t *rapid.T, id uint32) {
	for m.sides[1].s.lastID < id {
		m.emit(0)
		m.deliver(t, 0)
	}
}

func (m *model) write(x *exchange, end, n int) {
	st := x.ends[end]
	s := st.session
	s.mu.Lock()
	n = min(n, sendBuffer-st.out.data.size)
	s.mu.Unlock()
	if n <= 0 || x.ended[end] || x.dropped {
		return
	}
	p := make([]byte, n)
	for i := range p {
		x.pattern++
		p[i] = x.pattern
	}
	if _, err := st.Write(p); err == nil {
		x.expect[1-end] = append(x.expect[1-end], p...)
	}
}

func (m *model) read(t *rapid.T, x *exchange, end, n int) {
	st := x.ends[end]
	if n = min(n, st.Buffered()); n == 0 || x.dropped {
		return
	}
	p := make([]byte, n)
	n, err := st.Read(p)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	if !bytes.Equal(p[:n], x.expect[end][:n]) {
		t.Fatalf("stream %d end %d: wrong bytes", st.id, end)
	}
	x.expect[end] = x.expect[end][n:]
}

// check holds the invariants of flow control after every step.
func (m *model) check(t *rapid.T) {
	for _, side := range m.sides {
		s := side.s
		s.mu.Lock()
		var grown int64
		for _, st := range s.streams {
			in := &st.in
			grown += in.grown
			if in.window > maxWindow {
				t.Fatalf("window of %d", in.window)
			}
			if in.err == nil && !in.ended && !st.closed && in.credit+int64(in.data.size)+in.read+in.owed != in.window {
				t.Fatalf("credit %d + buffered %d + read %d + owed %d is not the window %d", in.credit, in.data.size,
					in.read, in.owed, in.window)
			}
			if st.out.credit < 0 {
				t.Fatalf("sent beyond credit: %d", st.out.credit)
			}
			if st.out.data.size > sendBuffer {
				t.Fatalf("send buffer of %d", st.out.data.size)
			}
		}
		if grown+s.growth != growthBudget {
			t.Fatalf("grown %d + left %d is not the budget", grown, s.growth)
		}
		s.mu.Unlock()
	}
}

func newModel(t *rapid.T) *model {
	m := &model{}
	for i, side := range []*side{{}, {}} {
		s, err := newSession(NewShared(processBudget), nil, i == 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.control = AppendFrame(nil, TypeHello, 0, s.ours.Append(nil))
		side.s = s
		m.sides[i] = side
	}
	m.settle(t)
	return m
}

func TestFlowControlModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		pick := func(t *rapid.T) (*exchange, int) {
			if len(m.streams) == 0 {
				t.Skip("no stream")
			}
			return m.streams[rapid.IntRange(0, len(m.streams)-1).Draw(t, "stream")], rapid.IntRange(0, 1).Draw(t, "end")
		}
		t.Repeat(map[string]func(*rapid.T){
			"": m.check,
			"open": func(t *rapid.T) {
				if len(m.streams) < 20 {
					m.open(t)
				}
			},
			"write": func(t *rapid.T) {
				x, end := pick(t)
				m.write(x, end, rapid.IntRange(1, 100_000).Draw(t, "n"))
			},
			"read": func(t *rapid.T) {
				x, end := pick(t)
				m.read(t, x, end, rapid.IntRange(1, 200_000).Draw(t, "n"))
			},
			"emit":    func(t *rapid.T) { m.emit(rapid.IntRange(0, 1).Draw(t, "side")) },
			"deliver": func(t *rapid.T) { m.deliver(t, rapid.IntRange(0, 1).Draw(t, "side")) },
			"end": func(t *rapid.T) {
				x, end := pick(t)
				if !x.dropped && !x.ended[end] && x.ends[end].CloseWrite() == nil {
					x.ended[end] = true
				}
			},
			"reset": func(t *rapid.T) {
				x, end := pick(t)
				if rapid.IntRange(0, 9).Draw(t, "seldom") == 0 {
					x.ends[end].Reset(CodeCancel, "")
					x.dropped = true
				}
			},
		})
		m.finish(t)
	})
}

// finish reads everything out and closes: all that was written is read, and nothing is left.
func (m *model) finish(t *rapid.T) {
	for range 1000 {
		m.settle(t)
		left := 0
		for _, x := range m.streams {
			for end := range x.ends {
				m.read(t, x, end, 1<<20)
				if !x.dropped {
					left += len(x.expect[end])
				}
			}
		}
		if left == 0 {
			break
		}
	}
	for _, x := range m.streams {
		for end, st := range x.ends {
			if !x.dropped && len(x.expect[end]) > 0 {
				t.Fatalf("stream %d: %d bytes were never delivered", st.id, len(x.expect[end]))
			}
			st.Close()
		}
	}
	m.settle(t)
	for _, side := range m.sides {
		if s := side.s; len(s.streams) != 0 || s.heads != 0 || s.growth != growthBudget {
			t.Fatalf("left behind: %d streams, %d bytes of heads, %d of growth", len(s.streams), s.heads,
				growthBudget-s.growth)
		}
	}
}

// A batch takes a quantum of each stream in turn, whatever one of them has waiting.
func TestStreamsTakeTurns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		n := rapid.IntRange(2, 4).Draw(t, "streams")
		for range n {
			m.open(t)
		}
		m.settle(t)
		for _, x := range m.streams {
			m.write(x, 0, sendBuffer)
		}
		s := m.sides[0].s
		s.mu.Lock()
		b := s.takeBatch(nil)
		s.mu.Unlock()
		got := map[uint32]int{}
		for len(b) > 0 {
			f, rest, err := DecodeFrame(b)
			if err != nil {
				t.Fatal(err)
			}
			got[f.Stream] += len(f.Payload)
			b = rest
		}
		for _, x := range m.streams {
			if c := got[x.ends[0].id]; c < quantum || c > 2*quantum && n > 2 {
				t.Fatalf("shares of one batch: %v", got)
			}
		}
	})
}

// Control frames go before data that was queued earlier.
func TestControlOvertakesData(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		m.open(t)
		m.settle(t)
		m.write(m.streams[0], 0, sendBuffer)
		s := m.sides[0].s
		s.mu.Lock()
		defer s.mu.Unlock()
		s.queueControl(appendPing(s.control, TypePing, 1))
		f, _, err := DecodeFrame(s.takeBatch(nil))
		if err != nil || f.Type != TypePing {
			t.Fatalf("first frame %v, %v", f.Type, err)
		}
	})
}
