package event

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"fairlead.dev/services/console/internal/store"
)

// tailSize and tailBytes are how many events are kept for followers, and how much of what they say of each of many
// services: some MB, and seconds of a whole fleet that reports.
const tailSize, tailBytes = 2048, 8 << 20

// tail is the last events. One reader takes them from the database for all followers, while there are any.
//
// A follower that is further behind, because it begins far back or is slow, reads the database by itself until it has
// caught up. No other follower waits for it.
type tail struct {
	store *store.Store
	wake  chan struct{} // capacity 1: there may be something to read

	mu        sync.Mutex // guards what follows
	followers int
	moved     chan struct{} // closed and replaced when anything below changes
	stands    bool          // whether the rest means anything
	list      []entry       // every event behind from and up to end
	from, end int64
	bytes     int   // of the members in list
	failures  int   // a follower that joined before one of them has to begin again
	err       error // the last one's
}

type entry struct {
	seq   int64
	event Told // shared by all followers
}

func newTail(s *store.Store) *tail {
	t := &tail{store: s, wake: make(chan struct{}, 1), moved: make(chan struct{})}
	s.OnEvents(t.told)
	return t
}

// told has what is new read soon.
func (t *tail) told() {
	select {
	case t.wake <- struct{}{}:
	default: // the database is going to be read anyway
	}
}

// run reads until ctx ends.
func (t *tail) run(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		for t.read(ctx) {
		}
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-look.C:
		}
	}
}

// read takes in what is new, and says whether there may be more.
func (t *tail) read(ctx context.Context) bool {
	at, stands, wanted := t.place()
	if !wanted {
		return false
	}
	var rows []store.Event
	var end int64
	var more bool
	err := t.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		if !stands {
			end, err = v.EventsEnd(ctx)
			return err
		}
		if end, err = endBehind(ctx, v, at); err != nil || end == at {
			return err
		}
		rows, more, err = v.EventsAfter(ctx, store.EventQuery{}, at, readRows)
		return err
	})
	list := make([]entry, 0, len(rows))
	for _, row := range rows {
		e, failed := Decode(row)
		if failed != nil {
			err = failed
			break
		}
		list = append(list, entry{row.Seq, e})
	}
	if more {
		end = rows[len(rows)-1].Seq
	}
	t.take(list, end, err)
	return more && err == nil && ctx.Err() == nil
}

// place is up to where everything was read. wanted: somebody follows.
func (t *tail) place() (end int64, stands, wanted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.followers == 0 {
		t.stands, t.list, t.bytes = false, nil, 0
	}
	return t.end, t.stands, t.followers > 0
}

// take adds what was read up to a number.
func (t *tail) take(list []entry, end int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		t.stands, t.list, t.bytes = false, nil, 0
		t.failures++
		t.err = err
	case !t.stands:
		t.stands, t.from, t.end = true, end, end
	case end == t.end:
		return
	default:
		t.list, t.end = append(t.list, list...), end
		t.bytes += weight(list)
		if len(t.list) > 2*tailSize || t.bytes > 2*tailBytes {
			t.trim()
		}
	}
	close(t.moved)
	t.moved = make(chan struct{})
}

// trim lets go of what is too much. Call it with mu held.
func (t *tail) trim() {
	over := max(len(t.list)-tailSize, 0)
	bytes := weight(t.list[over:])
	for ; bytes > tailBytes; over++ {
		bytes -= len(t.list[over].event.members)
	}
	t.from, t.bytes = t.list[over-1].seq, bytes
	t.list = slices.Clone(t.list[over:]) // and let go of the rest
}

// weight is how many bytes events say of each of many services.
func weight(list []entry) (bytes int) {
	for _, e := range list {
		bytes += len(e.event.members)
	}
	return bytes
}

// join makes sure that the tail is kept until leave. join returns what to ask behind with.
func (t *tail) join() (failures int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers++
	t.told()
	return t.failures
}

func (t *tail) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers--
}

// behind returns some events behind a place, and up to where that is everything; kept is false if not all of them are
// here. moved is closed when there is more.
func (t *tail) behind(at int64, failures int) (list []entry, next int64, kept bool, moved <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.failures != failures:
		return nil, at, false, nil, t.err
	case !t.stands || at >= t.end: // a follower that read by itself may be ahead
		return nil, at, true, t.moved, nil
	case at < t.from:
		return nil, at, false, t.moved, nil
	}
	first, _ := slices.BinarySearchFunc(t.list, at+1, func(e entry, seq int64) int { return cmp.Compare(e.seq, seq) })
	list, next = t.list[first:], t.end
	if len(list) > readRows {
		list = list[:readRows]
		next = list[readRows-1].seq
	}
	return list, next, true, t.moved, nil
}
