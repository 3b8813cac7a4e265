package mux

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A stream that has little to send goes before bulk that was queued earlier, and does not keep it out.
func TestLittleGoesBeforeBulk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for range 3 {
			m.open(t)
		}
		m.settle(t)
		m.write(m.streams[0], 0, sendBuffer)
		m.write(m.streams[1], 0, sendBuffer)
		m.write(m.streams[2], 0, rapid.IntRange(1, quantum).Draw(t, "little"))
		s := m.sides[0].s
		s.mu.Lock()
		b := s.takeBatch(nil)
		s.mu.Unlock()
		var order []uint32
		for len(b) > 0 {
			f, rest, err := DecodeFrame(b)
			if err != nil {
				t.Fatal(err)
			}
			if b = rest; f.Type == TypeData && (len(order) == 0 || order[len(order)-1] != f.Stream) {
				order = append(order, f.Stream)
			}
		}
		if len(order) < 3 || order[0] != m.streams[2].ends[0].id {
			t.Fatalf("order of streams in the batch: %v", order)
		}
	})
}

// A window grows with the round trip, stays small where that is short, and does not grow when memory is short.
func TestHowFarWindowsGrow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trip time.Duration
		held int64
		want int64
	}{
		"near":            {time.Millisecond, 0, nearWindow},
		"far":             {100 * time.Millisecond, 0, maxWindow},
		"memory is short": {100 * time.Millisecond, processBudget / 2, initialWindow},
	} {
		s, err := newSession(NewShared(processBudget), nil, true, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.shortest = c.trip
		s.shared.held.Store(c.held)
		window := int64(initialWindow)
		for range 20 {
			window += s.mayGrow(window)
		}
		if window != c.want {
			t.Errorf("%s: %d, want %d", name, window, c.want)
		}
	}
}

// No batch is larger than a carrier takes, whatever waits.
func TestBatchesFit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		s := m.sides[0].s
		for range 4 {
			head := make([]byte, rapid.IntRange(0, MaxHead).Draw(t, "head"))
			if _, err := s.Open(make([]byte, rapid.IntRange(0, MaxHead-100).Draw(t, "open")), Part{Headers: head, Data: make([]byte, 20_000)}); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.target = batchMost
		for range rapid.IntRange(0, maxControl/20).Draw(t, "pings") {
			s.queueControl(appendPing(s.control, TypePing, 1))
		}
		for s.hasPending() {
			b := s.takeBatch(nil)
			if len(b) > MaxBatch || len(b) == 0 {
				t.Fatalf("batch of %d bytes", len(b))
			}
		}
	})
}

// A session that is idle after a burst has no room left for the burst, and points to none of its streams.
func TestAnEmptyQueueKeepsNothingOfABurst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var want []*Stream
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			if len(want) > 0 && rapid.Bool().Draw(t, "next") {
				if got := q.nextStream(); got != want[0] {
					t.Fatalf("stream %d had its turn before %d", got.id, want[0].id)
				}
				want = want[1:]
				continue
			}
			st := &Stream{id: uint32(len(want))}
			want = append(want, st)
			q.addStream(st)
		}
		for len(want) > 0 {
			q.nextStream()
			want = want[1:]
		}
		if cap(q.waiting) > len(q.room) || q.room != [len(q.room)]*Stream{} {
			t.Fatalf("an empty queue has room for %d, and holds %v", cap(q.waiting), q.room)
		}
	})
}
