package rpc

import (
	"container/list"
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/services/distributor/internal/pressure"
)

// Bounds per sort of calls. Each waiting call costs a goroutine; both sorts take well under a millisecond when
// nothing is in their way.
const (
	syncsAtOnce, syncsWaiting = 64, 4096
	opensAtOnce, opensWaiting = 64, 16384
	// syncsPatience is how long the line of Syncs may take, if more than leastWaiting are in it. Agents wait for 30 s,
	// connecting included: in a line as long as that each would be answered when it has given up, and ask again. Calls
	// that open a stream have no such limit.
	syncsPatience, leastWaiting = 10 * time.Second, 256
)

// class bounds how many calls of one sort are worked on at once, so that one sort holds up no other. Some wait for
// their turn, urgent ones before the others; more are told when to come back. The share of one cluster is bounded
// before, by front.
type class struct {
	most     int64
	patience time.Duration // of calls that wait; 0: without end
	away     func()        // counts the calls that are turned away
	pace     pressure.Pace

	mu     sync.Mutex // guards what follows
	free   int        // turns
	urgent list.List  // of *waiter, the longest wait first
	line   list.List  // of the others
}

// waiter is a call that waits for its turn. turn receives nil when it has one, and else why it gets none.
type waiter struct{ turn chan error }

func newClass(atOnce int, waiting int64, patience time.Duration, away func()) *class {
	return &class{free: atOnce, most: waiting, patience: patience, away: away}
}

// enter waits for a turn. Leave when the work is done.
func (c *class) enter(ctx context.Context) error { return c.turn(ctx, &c.line) }

// enterUrgent is enter for a call that goes before the others: its agent was told that there is something new.
func (c *class) enterUrgent(ctx context.Context) error { return c.turn(ctx, &c.urgent) }

func (c *class) turn(ctx context.Context, line *list.List) error {
	c.mu.Lock()
	if c.free > 0 {
		c.free--
		c.mu.Unlock()
		return nil
	}
	if !c.room(line) {
		c.mu.Unlock()
		c.away()
		return errTooMany(c.pause())
	}
	w := &waiter{make(chan error, 1)}
	place := line.PushBack(w)
	c.mu.Unlock()
	select {
	case err := <-w.turn:
		return err
	case <-ctx.Done():
	}
	c.mu.Lock()
	line.Remove(place) // nothing happens if it was taken out
	c.mu.Unlock()
	select {
	case err := <-w.turn:
		if err == nil {
			c.next() // no caller waits for what the call would do
		}
	default:
	}
	return ctx.Err()
}

// room says whether one more may wait in a line. Where it is full, or takes too long, an urgent call takes the place of
// the one that came last. mu is held.
func (c *class) room(line *list.List) bool {
	waiting := int64(c.urgent.Len() + c.line.Len())
	if waiting < c.most && (c.patience == 0 || waiting < leastWaiting || c.pace.Takes(waiting) < c.patience) {
		return true
	}
	last := c.line.Back()
	if line != &c.urgent || last == nil {
		return false
	}
	c.line.Remove(last).(*waiter).turn <- errTooMany(c.pace.Pause(waiting))
	c.away()
	return true
}

// next gives a turn to the call that has waited longest.
func (c *class) next() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range []*list.List{&c.urgent, &c.line} {
		if first := line.Front(); first != nil {
			line.Remove(first).(*waiter).turn <- nil
			return
		}
	}
	c.free++
}

func (c *class) leave() {
	c.next()
	c.pace.Note(1, c.waiting() > 0)
}

func (c *class) waiting() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(c.urgent.Len() + c.line.Len())
}

// pause is when a caller that is turned away may come back.
func (c *class) pause() time.Duration { return c.pace.Pause(c.waiting()) }

// errTooMany tells when to come back, each caller another time.
func errTooMany(pause time.Duration) error {
	err := connect.NewError(connect.CodeUnavailable, errors.New("too many calls at once: keep what you have and ask again after the time in Retry-After"))
	err.Meta().Set("Retry-After", strconv.Itoa(int(pause.Seconds())))
	return err
}
