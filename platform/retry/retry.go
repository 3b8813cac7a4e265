// Package retry has the waits between tries: how long they are, and the wait itself. Their lengths are random, so that
// clients that failed together do not come back together.
package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"connectrpc.com/connect"
)

const (
	// firstBound is the upper bound of a Backoff's first wait.
	firstBound = time.Second
	// maxRetryAfter bounds how long a Backoff leaves the hub alone because the hub said so.
	maxRetryAfter = time.Minute
)

// Backoff gives growing waits with full jitter: anything from Floor to the bound, which is a second at first and
// doubles with every failure up to Max.
type Backoff struct {
	Floor, Max time.Duration

	failures int
}

// Next is how long to wait after one more failure.
func (b *Backoff) Next() time.Duration {
	wait := Between(b.Floor, bound(b.failures, firstBound, b.Max))
	b.failures++
	return wait
}

// After is how long to wait after an error. If the hub said when it has a turn, that counts, and up to as much again
// after failures before: the hub knows how long its line is, and a client that stays away for longer comes when the
// line is long gone. Otherwise it is Next.
func (b *Backoff) After(err error) time.Duration {
	wait := b.Next()
	if asked := Asked(err, maxRetryAfter); asked > 0 {
		return asked + min(wait, asked)
	}
	return wait
}

// Reset forgets the failures.
func (b *Backoff) Reset() { b.failures = 0 }

// Pause is a wait with full jitter: anything up to a bound, which is first after no failure before and doubles with
// each of them up to most.
func Pause(failures int, first, most time.Duration) time.Duration {
	return Between(0, bound(failures, first, most))
}

// bound doubles first with every failure, up to most. 16 times are enough for each most, and do not overflow.
func bound(failures int, first, most time.Duration) time.Duration {
	return min(first<<min(failures, 16), most)
}

// Asked is how long the hub wants to be left alone, as a refusal says in Retry-After, and most at the longest; 0: the
// error says nothing.
func Asked(err error, most time.Duration) time.Duration {
	refused, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return 0
	}
	s, err := strconv.Atoi(refused.Meta().Get("Retry-After"))
	if err != nil || s <= 0 {
		return 0
	}
	return min(time.Duration(min(s, int(most/time.Second)+1))*time.Second, most)
}

// Spread varies a wait by a tenth either way.
func Spread(wait time.Duration) time.Duration { return Between(wait-wait/10, wait+wait/10) }

// Around varies a wait by half either way.
func Around(wait time.Duration) time.Duration { return Between(wait/2, wait+wait/2) }

// Between is a random wait from least to most, and least if most is shorter.
func Between(least, most time.Duration) time.Duration {
	return least + rand.N(max(most-least, 0)+1) //nolint:gosec // spread, not secrecy
}

// Sleep waits, and tells whether the wait ended before ctx did.
func Sleep(ctx context.Context, wait time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}
