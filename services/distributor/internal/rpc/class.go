package rpc

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/platform/shares"
	"fairlead.dev/services/distributor/internal/pressure"
)

// Bounds per sort of calls. What waits costs a goroutine each; both sorts take well under a millisecond when
// nothing is in their way.
const (
	syncsAtOnce, syncsWaiting = 64, 4096
	opensAtOnce, opensWaiting = 64, 16384
	// callsPerCluster of one sort wait or are worked on at once, and watchesPerCluster stand: a cluster has two agents at most, each of which makes
	// one call of a sort at a time, and again after one that it gave up.
	callsPerCluster, watchesPerCluster = 16, 32
)

// class bounds how many calls of one sort are worked on at once, so that one sort holds up no other. Some wait
// for their turn; more are told when to come back.
type class struct {
	slots   chan struct{}
	most    int64
	waiting atomic.Int64
	shares  *shares.Shares // of clusters, in slots and line
	away    func()         // counts who is turned away
	pace    pressure.Pace
}

func newClass(atOnce int, waiting int64, away func()) *class {
	return &class{slots: make(chan struct{}, atOnce), most: waiting, shares: shares.New(callsPerCluster), away: away}
}

// enter waits for a turn of a cluster. Leave when the work is done.
func (c *class) enter(ctx context.Context, cluster string) error {
	if !c.shares.Take(cluster, 1) {
		c.away()
		return errTooMany(c.pause())
	}
	err := c.turn(ctx)
	if err != nil {
		c.shares.Give(cluster, 1)
	}
	return err
}

func (c *class) turn(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	default:
	}
	if c.waiting.Add(1) > c.most {
		c.waiting.Add(-1)
		c.away()
		return errTooMany(c.pause())
	}
	defer c.waiting.Add(-1)
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *class) leave(cluster string) {
	<-c.slots
	c.shares.Give(cluster, 1)
	c.pace.Note(1)
}

// pause is when a caller that is turned away may come back.
func (c *class) pause() time.Duration { return c.pace.Pause(min(c.waiting.Load(), c.most)) }

// errTooMany tells when to come back, each caller another time.
func errTooMany(pause time.Duration) error {
	err := connect.NewError(connect.CodeUnavailable, errors.New("too many calls at once: keep what you have and ask again after the time in Retry-After"))
	err.Meta().Set("Retry-After", strconv.Itoa(int(pause.Seconds())))
	return err
}
