package rpc

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/platform/shares"
)

// Bounds per sort of calls. What waits costs a goroutine each; both sorts take well under a millisecond when
// nothing is in their way.
const (
	syncsAtOnce, syncsWaiting = 64, 4096
	opensAtOnce, opensWaiting = 64, 16384
	// callsPerCluster of one sort wait or are worked on at once, and watchesPerCluster stand: a cluster has two agents at most, each of which makes
	// one call of a sort at a time, and again after one that it gave up.
	callsPerCluster, watchesPerCluster = 16, 32
	// Who is turned away comes back after a time between these two.
	leastPause, mostPause = 2 * time.Second, 15 * time.Second
)

// class bounds how many calls of one sort are worked on at once, so that one sort holds up no other. Some wait
// for their turn; more are told when to come back.
type class struct {
	slots   chan struct{}
	most    int64
	waiting atomic.Int64
	shares  *shares.Shares // of clusters, in slots and line
	away    func()         // counts who is turned away
}

func newClass(atOnce int, waiting int64, away func()) *class {
	return &class{slots: make(chan struct{}, atOnce), most: waiting, shares: shares.New(callsPerCluster), away: away}
}

// enter waits for a turn of a cluster. Leave when the work is done.
func (c *class) enter(ctx context.Context, cluster string) error {
	if !c.shares.Take(cluster, 1) {
		c.away()
		return errTooMany()
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
		return errTooMany()
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
}

// errTooMany tells when to come back, each caller another time.
func errTooMany() error {
	err := connect.NewError(connect.CodeUnavailable, errors.New("too many calls at once: keep what you have and ask again after the time in Retry-After"))
	pause := leastPause + rand.N(mostPause-leastPause) //nolint:gosec // jitter is no secret
	err.Meta().Set("Retry-After", strconv.Itoa(int(pause.Seconds())))
	return err
}
