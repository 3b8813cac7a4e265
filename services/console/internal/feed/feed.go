// Package feed carries the catalog's change log to whoever follows it.
//
// One goroutine per console, Run, reads the log: when woken by a write, of this console or another,
// and in any case every pollInterval. Run keeps what it read in a ring in memory, from which all streams are served; a
// stream that is further behind reads the log by itself. A stream holds nothing but its place in the log, so a slow one
// costs nobody anything, and writers never wait.
package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/guard"
)

const (
	// pollInterval is how late a change comes when its notification was lost.
	pollInterval = 2 * time.Second
	// heartbeat is how often a stream says that nothing happened; the contract is 15 s at most.
	heartbeat = 10 * time.Second
	// staleAfter is how long the log may be out of reach before streams are ended: who follows
	// them must not take silence for "nothing changed".
	staleAfter = 15 * time.Second
	// batchSize is how many changes are read, and sent, at once.
	batchSize = 256
	// ringSize is how many changes are kept in memory, and up to twice as many: a few MB, and
	// minutes of a busy catalog.
	ringSize = 4096
	// maxSnapshots bounds how many streams load the whole catalog at the same moment.
	maxSnapshots = 4
)

var (
	// ErrStopped ends streams when the console stops.
	ErrStopped = errors.New("the console stops: dial again")
	// ErrStale ends streams while the log can't be read.
	ErrStale = errors.New("the catalog's database does not answer: dial again")
)

// Event is a message of a stream.
type Event struct {
	Kind EventKind
	// Changes is set for Snapshot (all of it) and for Delta.
	Changes []store.Change
	// Token resumes behind this event.
	Token string
	// Seq is the number of the last change up to here, of any kind.
	Seq int64
	// Removals is set for Snapshot and Heartbeat.
	Removals guard.Removals
}

// EventKind says what an event is.
type EventKind int

// The kinds of events.
const (
	Snapshot EventKind = iota + 1
	Delta
	Heartbeat
)

// Feed follows the log for all streams of a console.
type Feed struct {
	// Hold has removals wait: somebody knows a history that this database does not have. Hold is set before Run.
	Hold func(ctx context.Context, reason string) error

	store     *store.Store
	log       *slog.Logger
	wake      chan struct{} // capacity 1: something happened
	snapshots chan struct{} // semaphore

	mu       sync.Mutex
	moved    chan struct{}  // closed and replaced when end moves; guarded by mu, as all below
	known    bool           // the end of the log was read once
	history  int            // counts how often the log turned out not to continue what was known
	from     int64          // the ring has everything behind this change
	ring     []store.Change // up to end, but for what was old when it was read
	end      store.Cursor
	read     time.Time      // when the log was last read
	removals guard.Removals // as they were then, or when this console held them
	holds    int            // counts how often it did
	stopped  bool
	streams  int
}

// New returns a hub. Run does its work.
func New(s *store.Store, log *slog.Logger) *Feed {
	return &Feed{
		store: s, log: log,
		wake: make(chan struct{}, 1), snapshots: make(chan struct{}, maxSnapshots), moved: make(chan struct{}),
	}
}

// Streams is how many streams are open.
func (h *Feed) Streams() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams
}

// End is the number of the last change that is known.
func (h *Feed) End() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.end.Seq
}

// Run reads the log until ctx ends; then it ends all streams.
func (h *Feed) Run(ctx context.Context) error {
	var listener sync.WaitGroup
	defer listener.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener.Go(func() {
		if err := h.store.Listen(ctx, h.signal); err != nil {
			h.log.WarnContext(ctx, "changes of other consoles are only seen by polling", "err", err)
		}
	})
	defer h.stop()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var away outage.Outage
	for {
		err := h.catchUp(ctx)
		switch {
		case err == nil:
			away.Over(ctx, h.log, time.Now(), "the change log can be read again")
		case ctx.Err() == nil:
			away.Failed(ctx, h.log, time.Now(), "the change log can't be read: streams get no changes until it can", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-h.wake:
		}
	}
}

func (h *Feed) signal() {
	select {
	case h.wake <- struct{}{}:
	default: // the hub is going to look anyway
	}
}

func (h *Feed) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	h.announce()
}

// announce wakes all streams. The caller holds mu.
func (h *Feed) announce() {
	close(h.moved)
	h.moved = make(chan struct{})
}

// catchUp reads the log to its end.
func (h *Feed) catchUp(ctx context.Context) error {
	for {
		more, err := h.step(ctx)
		if err != nil || !more {
			return err
		}
	}
}

// step reads one batch and says whether there may be more.
func (h *Feed) step(ctx context.Context) (more bool, err error) {
	h.mu.Lock()
	known, end, holds := h.known, h.end, h.holds
	h.mu.Unlock()
	var list []store.Change
	var removals guard.Removals
	next, lost := end, false
	err = h.store.Read(ctx, func(ctx context.Context, v store.View) error {
		var err error
		if removals, err = v.Removals(ctx); err != nil {
			return err
		}
		if known {
			reached, err := v.Reaches(ctx, end)
			if err != nil {
				return fmt.Errorf("find place in log: %w", err)
			}
			if reached {
				list, next, err = v.Changes(ctx, end.Seq, batchSize)
				return err
			}
		}
		lost = true
		next, err = v.End(ctx)
		return err
	})
	if err == nil && lost && known {
		err = h.doubt(ctx, end)
	}
	if err != nil {
		return false, err
	}
	h.mu.Lock()
	if h.holds == holds { // else they were read before
		h.removals = removals
	}
	h.mu.Unlock()
	h.take(list, next, lost)
	return next.Seq-end.Seq >= batchSize && !lost, nil
}

// take adds what was read. lost says that the log doesn't continue what is known: at the start, or
// after a database that was put back to an earlier state. Streams find that out by their own cursors.
func (h *Feed) take(list []store.Change, next store.Cursor, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.read = time.Now()
	if lost {
		h.known, h.ring, h.from, h.end = true, nil, next.Seq, next
		h.history++
		h.announce()
		return
	}
	if next.Seq == h.end.Seq {
		return
	}
	h.ring = append(h.ring, list...)
	if over := len(h.ring) - ringSize; over > ringSize {
		h.from = h.ring[over-1].Cursor.Seq
		h.ring = slices.Clone(h.ring[over:]) // and let go of the rest
	}
	h.end = next
	h.announce()
}

// after returns what is behind a place, as far as the ring has it.
func (h *Feed) after(at place) (view ringView) {
	h.mu.Lock()
	defer h.mu.Unlock()
	view = ringView{moved: h.moved, stopped: h.stopped, stale: h.known && time.Since(h.read) > staleAfter, history: h.history}
	if !h.known || at.history != h.history || at.Seq < h.from || at.Seq > h.end.Seq {
		return view
	}
	view.has = true
	i, _ := slices.BinarySearchFunc(h.ring, at.Seq+1, func(c store.Change, seq int64) int {
		return int(max(-1, min(1, c.Cursor.Seq-seq)))
	})
	view.next = h.end
	view.changes = h.ring[i:]
	if len(view.changes) > batchSize {
		view.changes = view.changes[:batchSize]
		view.next = view.changes[batchSize-1].Cursor
	}
	return view
}

// place is where a stream is. Its number means something in the history that it was checked against only.
type place struct {
	store.Cursor
	history int
}

type ringView struct {
	has     bool // false: the ring doesn't reach back to the place, or never had it
	changes []store.Change
	next    store.Cursor
	history int
	moved   <-chan struct{}
	stopped bool
	stale   bool
}

// Follower is who a stream is for.
type Follower struct {
	// Token is where it goes on; empty: it begins with a snapshot.
	Token string
	// Kinds is what it is told of; empty: everything.
	Kinds []store.Kind
	// Send may block as long as it likes.
	Send func(Event) error
}

// wanted returns the changes that the follower is told of.
func (f *Follower) wanted(changes []store.Change) []store.Change {
	if len(f.Kinds) == 0 {
		return changes
	}
	out := make([]store.Change, 0, len(changes))
	for _, c := range changes {
		if slices.Contains(f.Kinds, c.Kind) {
			out = append(out, c)
		}
	}
	return out
}

func (h *Feed) beat(to *Follower, at store.Cursor) error {
	h.mu.Lock()
	removals := h.removals
	h.mu.Unlock()
	return to.Send(Event{Kind: Heartbeat, Token: Token(at), Seq: at.Seq, Removals: removals})
}

// doubt looks whether a place that the log does not reach is one of another history, and has removals wait then: the
// catalog that follows may lack what was made there.
func (h *Feed) doubt(ctx context.Context, at store.Cursor) error {
	var foreign bool
	var end store.Cursor
	err := h.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		if foreign, err = v.Foreign(ctx, at); err == nil {
			end, err = v.End(ctx)
		}
		return err
	})
	if err != nil || !foreign || h.Hold == nil {
		return err
	}
	if err := h.Hold(ctx, fmt.Sprintf("change %d was known in the hub, and the database, whose last one is %d, does not have it: it was put back to an earlier state, or is another one", at.Seq, end.Seq)); err != nil {
		return err
	}
	// Before the next heartbeat, which would let them go for a moment.
	return h.store.Read(ctx, func(ctx context.Context, v store.View) error {
		removals, err := v.Removals(ctx)
		if err == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.removals = removals
			h.holds++
		}
		return err
	})
}

// Stream sends the catalog to one follower until ctx ends or sending fails: from the token on, or from a
// snapshot if there is none or the log doesn't reach back that far.
func (h *Feed) Stream(ctx context.Context, to *Follower) error {
	h.count(1)
	defer h.count(-1)
	at, err := h.begin(ctx, to)
	if err != nil {
		return err
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for told := false; ; {
		next, moved, err := h.advance(ctx, at, to)
		if err != nil {
			return err
		}
		if next != at {
			at = next
			continue
		}
		if !told {
			// At once, and only now: a heartbeat says that there is nothing newer, and the next change may be long in
			// coming.
			if err := h.beat(to, at.Cursor); err != nil {
				return err
			}
			told = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		case <-beat.C:
			if err := h.beat(to, at.Cursor); err != nil {
				return err
			}
		}
	}
}

// begin returns the place of a token, or the place of a snapshot that it sends. The zero history
// makes advance check the place before it uses the ring.
func (h *Feed) begin(ctx context.Context, to *Follower) (place, error) {
	if at, ok := parseToken(to.Token); ok {
		reached, err := h.reaches(ctx, at)
		if err != nil {
			return place{}, err
		}
		if reached {
			return place{Cursor: at}, nil
		}
		if err := h.doubt(ctx, at); err != nil {
			return place{}, err
		}
	}
	at, err := h.sendSnapshot(ctx, to)
	return place{Cursor: at}, err
}

func (h *Feed) count(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams += n
}

// advance sends the next changes behind a place, if there are any, and returns the place behind them.
// moved is closed when it is worth to call again.
func (h *Feed) advance(ctx context.Context, at place, to *Follower) (next place, moved <-chan struct{}, err error) {
	view := h.after(at)
	switch {
	case view.stopped:
		return at, nil, ErrStopped
	case view.stale:
		return at, nil, ErrStale
	}
	changes, next := view.changes, place{view.next, view.history}
	if !view.has {
		next.history = view.history
		if changes, next.Cursor, err = h.readAfter(ctx, at.Cursor); errors.Is(err, errGone) {
			if err := h.doubt(ctx, at.Cursor); err != nil {
				return at, nil, err
			}
			next.Cursor, err = h.sendSnapshot(ctx, to)
			return next, view.moved, err
		} else if err != nil {
			return at, nil, err
		}
	}
	// A change that is left out moves the token all the same, with the next message.
	if changes = to.wanted(changes); len(changes) > 0 {
		if err := to.Send(Event{Kind: Delta, Changes: changes, Token: Token(next.Cursor), Seq: next.Seq}); err != nil {
			return at, nil, err
		}
	}
	return next, view.moved, nil
}

var errGone = errors.New("the log does not reach back that far")

// readAfter reads the log for a stream that the ring doesn't reach.
func (h *Feed) readAfter(ctx context.Context, at store.Cursor) (list []store.Change, next store.Cursor, err error) {
	err = h.store.Read(ctx, func(ctx context.Context, v store.View) error {
		reached, err := v.Reaches(ctx, at)
		if err != nil {
			return err
		}
		if !reached {
			return errGone
		}
		list, next, err = v.Changes(ctx, at.Seq, batchSize)
		return err
	})
	if next.Seq == at.Seq {
		next = at // no change was read, so its nonce wasn't either
	}
	return list, next, err
}

func (h *Feed) reaches(ctx context.Context, at store.Cursor) (ok bool, err error) {
	err = h.store.Read(ctx, func(ctx context.Context, v store.View) (err error) {
		ok, err = v.Reaches(ctx, at)
		return err
	})
	return ok, err
}

// sendSnapshot sends all that a follower wants as of one moment, and returns its place in the log.
func (h *Feed) sendSnapshot(ctx context.Context, to *Follower) (at store.Cursor, err error) {
	select {
	case h.snapshots <- struct{}{}:
	case <-ctx.Done():
		return at, ctx.Err()
	}
	var all []store.Change
	var removals guard.Removals
	err = h.store.ReadAll(ctx, func(ctx context.Context, v store.View) (err error) {
		if removals, err = v.Removals(ctx); err != nil {
			return err
		}
		all, at, err = v.Snapshot(ctx, to.Kinds...)
		return err
	})
	<-h.snapshots
	if err != nil {
		return at, err
	}
	return at, to.Send(Event{Kind: Snapshot, Changes: all, Token: Token(at), Seq: at.Seq, Removals: removals})
}

// Token resumes behind a place. A token is "<number>.<nonce>"; only this package reads it.
func Token(c store.Cursor) string {
	return strconv.FormatInt(c.Seq, 10) + "." + c.Nonce
}

func parseToken(token string) (store.Cursor, bool) {
	number, nonce, ok := strings.Cut(token, ".")
	seq, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || seq < 0 || strings.ContainsRune(nonce, 0) {
		return store.Cursor{}, false
	}
	return store.Cursor{Seq: seq, Nonce: nonce}, true
}

// Age is how long ago the log was last read; 0 before the first time.
func (h *Feed) Age() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known {
		return 0
	}
	return time.Since(h.read)
}
