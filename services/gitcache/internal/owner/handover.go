package owner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/retry"
)

const (
	// expectTime is how long a replica that is to be told to take a source waits for that.
	expectTime = 10 * time.Second
	// forcedTime is how long a replica that was told to take a source tries for its lease out of turn.
	forcedTime = 5 * time.Second
	// givenTime is how long a schedule is good for the next tenure.
	givenTime = 30 * time.Second
	// wishTime is how long somebody's wish for a poll is remembered while a source changes hands.
	wishTime = 30 * time.Second
	// mostCarried bounds the pause that another replica can hand over with a source.
	mostCarried = 24 * time.Hour
)

var (
	// ErrNotOwned: this replica does not have the lease.
	ErrNotOwned = errors.New("this replica does not own the source")
	// ErrBusy: the poll that runs was not done in time.
	ErrBusy = errors.New("a poll of the source takes long; it stays here meanwhile")

	errYielded = errors.New("handed over")
)

// Schedule is when a source was polled last, and is to be polled next. The schedule goes with a source that moves, so
// that moving costs upstream nothing.
type Schedule struct{ Last, Next time.Time }

// handover is how a source changes hands: who may write its mirror, and when its lease comes and goes.
type handover struct {
	again chan struct{} // one place: it may be this replica's turn now
	yield chan struct{} // one place: end the tenure after the poll
	late  chan Schedule // one place: of the owner before, for a tenure that began before it was told

	mu     sync.Mutex    // guards what follows
	began  chan struct{} // closed while owned
	over   chan struct{} // closed while the lease is not held
	closed bool          // the source is gone
	loan   *loan         // of the mirror, while not owned

	expected time.Time // until then the source is about to change hands, and its lease is left alone
	forced   time.Time // until then the lease is tried for out of turn
	kept     bool      // a person wants the source here, whatever replica is preferred
	early    bool      // this tenure began while the source was about to change hands: its schedule comes later
	given    *Schedule // of the owner before, for the next tenure
	givenAt  time.Time
	left     Schedule  // of the last tenure
	wished   time.Time // a poll was asked for while the source was not owned
}

type loan struct {
	recall context.CancelFunc
	back   chan struct{}
}

func newHandover() handover {
	over := make(chan struct{})
	close(over)
	return handover{again: make(chan struct{}, 1), yield: make(chan struct{}, 1), late: make(chan Schedule, 1), began: make(chan struct{}), over: over}
}

// beginTenure starts a tenure when nobody writes the mirror any more. The results say when to poll, and whether the
// source was handed over. A try for the lease that was on its way when the owner said that the source is about to move
// may succeed before this replica is told when to poll: then there is time until it should have been told.
func (h *handover) beginTenure() (due Schedule, handed bool) {
	h.mu.Lock()
	h.over = make(chan struct{})
	lent := h.loan
	h.mu.Unlock()
	h.recallLoan(lent)

	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.yield: // meant for a tenure before
	default:
	}
	select {
	case <-h.late:
	default:
	}
	now := time.Now()
	due = Schedule{Next: now}
	known := h.given != nil && now.Sub(h.givenAt) < givenTime
	h.early = !known && now.Before(h.expected)
	handed = h.early || now.Before(h.forced)
	switch {
	case known:
		due = *h.given
	case h.early:
		due.Next = h.expected
	}
	if due.Next.After(now.Add(mostCarried)) || now.Sub(h.wished) < wishTime {
		due.Next = now
	}
	h.given, h.forced, h.expected = nil, time.Time{}, time.Time{}
	close(h.began)
	return due, handed
}

func (h *handover) recallLoan(l *loan) {
	if l != nil {
		l.recall()
		<-l.back
	}
}

// endTenure is the end of a tenure; the lease is given back after it. A source that was handed over is left alone for a
// while. If nobody takes it, this replica goes on where it was.
func (h *handover) endTenure(s Schedule, yielded bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = s
	h.began = make(chan struct{})
	if yielded {
		now := time.Now()
		h.kept, h.expected = false, now.Add(forcedTime)
		h.given, h.givenAt = &s, now
	}
}

// adoptSchedule takes the schedule of the owner before, unless there was a reason to poll meanwhile.
func (t *tenure) adoptSchedule(s Schedule) {
	if t.polled || !t.pollAt.Equal(t.due) || s.Next.After(time.Now().Add(mostCarried)) {
		return
	}
	t.pollAt = s.Next
	t.loop.changeState(func(st *State) { st.LastPoll, st.NextPoll = s.Last, s.Next })
}

// noteReleased says that others can have the lease.
func (h *handover) noteReleased() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.over: // a tenure that could not begin
	default:
		close(h.over)
	}
}

func (l *loop) leaseFree() {
	l.place.noteReleased()
	l.o.deps.Turned()
}

// closeForGood ends it when the source is gone or the service stops: no copy is written from here on.
func (h *handover) closeForGood() {
	h.mu.Lock()
	h.closed = true
	lent := h.loan
	h.mu.Unlock()
	h.recallLoan(lent)
}

// waitForTurn says how long to leave a free lease to others: the one that should own the source is not asked to
// wait, and each of the others gives those before it the time to come.
func (l *loop) waitForTurn() time.Duration {
	h := &l.place
	h.mu.Lock()
	now := time.Now()
	forced, expected, kept := now.Before(h.forced), now.Before(h.expected), h.kept
	h.mu.Unlock()
	place := l.o.deps.Placement.Place(l.uid)
	switch {
	case forced:
		return 0
	case place < 0, expected: // a replica that takes the lease before it is told does not know when to poll
		return -1
	case kept, place == 0:
		return 0
	}
	// An owner says within half a ttl that it is still there to a store that was flushed.
	step := l.o.cfg.TTL * 5 / 8
	return min(step*time.Duration(place), l.o.cfg.TTL) + retry.Between(0, l.o.cfg.TTL/8)
}

// askPoll asks for a poll; false: not owned.
func (l *loop) askPoll() bool {
	if l.currentState().Owned {
		l.nudgeLoop()
		return true
	}
	l.place.mu.Lock()
	defer l.place.mu.Unlock()
	l.place.wished = time.Now()
	return false
}

// Reconsider makes every loop ask again whose turn it is: replicas came or went.
func (o *Owner) Reconsider() {
	for _, l := range o.allLoops() {
		l.place.reviewPlacement()
	}
}

func (h *handover) reviewPlacement() {
	select {
	case h.again <- struct{}{}:
	default:
	}
}

// Owned is a source that this replica owns.
type Owned struct {
	UID, Name string
	// Claimed: the console knows of it. Without the console nobody else could claim it.
	Claimed bool
	// Kept: somebody wants it here.
	Kept bool
}

// Owned are all of them, by name.
func (o *Owner) Owned() []Owned {
	var owned []Owned
	for _, l := range o.allLoops() {
		if s := l.currentState(); s.Owned {
			owned = append(owned, Owned{UID: l.uid, Name: l.currentSource().Name, Claimed: s.Epoch > 0, Kept: l.place.isKept()})
		}
	}
	slices.SortFunc(owned, func(a, b Owned) int { return strings.Compare(a.Name, b.Name) })
	return owned
}

// Owns tells whether this replica owns a source.
func (o *Owner) Owns(uid string) bool {
	l := o.loopOf(uid)
	return l != nil && l.currentState().Owned
}

func (h *handover) isKept() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept
}

// Keep makes a source stay here, whoever is preferred, until this replica drains or ends; false: not owned.
func (o *Owner) Keep(uid string) bool {
	l := o.loopOf(uid)
	if l == nil || !l.currentState().Owned {
		return false
	}
	l.place.mu.Lock()
	defer l.place.mu.Unlock()
	l.place.kept = true
	return true
}

// Yield gives the lease of a source back, after the poll that may be running. If that takes longer than
// ctx lasts, the source stays here (ErrBusy).
func (o *Owner) Yield(ctx context.Context, uid string) (Schedule, error) {
	l := o.loopOf(uid)
	if l == nil || !l.currentState().Owned {
		return Schedule{}, ErrNotOwned
	}
	h := &l.place
	h.mu.Lock()
	over := h.over
	h.mu.Unlock()
	select {
	case h.yield <- struct{}{}:
	default:
	}
	select {
	case <-over:
	case <-ctx.Done():
		select {
		case <-h.yield:
			return Schedule{}, ErrBusy
		case <-over:
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.left, nil
}

// Expect leaves the lease of a source alone for a while: its owner is about to say that it is free.
func (o *Owner) Expect(uid string) {
	if l := o.loopOf(uid); l != nil {
		l.place.mu.Lock()
		defer l.place.mu.Unlock()
		l.place.expected = time.Now().Add(expectTime)
	}
}

// Take tries for the lease of a source at once: its owner has given it back. Take returns when this replica owns the
// source. With keep it stays here, whoever is preferred.
func (o *Owner) Take(ctx context.Context, uid string, s Schedule, keep bool) error {
	l := o.loopOf(uid)
	if l == nil {
		return ErrGone
	}
	h := &l.place
	h.mu.Lock()
	h.kept = h.kept || keep
	began := h.began
	select {
	case <-began:
		if h.early {
			h.early = false
			h.late <- s // has a place: begin empties it
		}
	default:
		h.given, h.givenAt = &s, time.Now()
		h.forced = h.givenAt.Add(forcedTime)
	}
	h.mu.Unlock()
	h.reviewPlacement()
	ctx, cancel := context.WithTimeout(ctx, forcedTime)
	defer cancel()
	select {
	case <-began:
		return nil
	case <-ctx.Done():
		return ErrNotOwned
	}
}

// Borrow lends the mirror of a source that this replica does not own, to copy into it. When the context
// ends the replica has come to own it, or the source is gone: give it back soon then. False: it is not
// to be had.
func (o *Owner) Borrow(ctx context.Context, uid string) (copying context.Context, back func(), ok bool) {
	l := o.loopOf(uid)
	if l == nil {
		return nil, nil, false
	}
	h := &l.place
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.over:
	default:
		return nil, nil, false
	}
	if h.closed || h.loan != nil {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	lent := &loan{cancel, make(chan struct{})}
	h.loan = lent
	return ctx, func() {
		cancel()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.loan = nil
		close(lent.back)
	}, true
}
