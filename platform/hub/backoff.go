package hub

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"connectrpc.com/connect"
)

// Backoff gives growing waits with full jitter: anything from Floor to the bound, which doubles with every
// failure up to Max. So agents that failed together do not come back together.
type Backoff struct {
	Floor, Max time.Duration

	failures int
}

// firstBound is the upper bound of the first wait.
const firstBound = time.Second

// maxRetryAfter bounds how long the hub is left alone because it said so.
const maxRetryAfter = time.Minute

// Next is how long to wait after one more failure.
func (b *Backoff) Next() time.Duration {
	bound := min(firstBound<<min(b.failures, 20), b.Max)
	b.failures++
	return b.Floor + rand.N(max(bound-b.Floor, 1)) //nolint:gosec // spread, not secrecy
}

// After is how long to wait after an error. If the hub said when it has a turn, that counts, and up to as much again after failures before: the hub
// knows how long its line is, and who stays away for longer comes when the line is long gone. Otherwise it is Next.
func (b *Backoff) After(err error) time.Duration {
	wait := b.Next()
	if asked := askedFor(err); asked > 0 {
		return asked + min(wait, asked)
	}
	return wait
}

// askedFor is how long the hub wants to be left alone, as it said in Retry-After when it refused; 0: it said nothing.
func askedFor(err error) time.Duration {
	refused, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return 0
	}
	s, err := strconv.Atoi(refused.Meta().Get("Retry-After"))
	if err != nil || s <= 0 {
		return 0
	}
	return min(time.Duration(s)*time.Second, maxRetryAfter)
}

// Reset forgets the failures.
func (b *Backoff) Reset() { b.failures = 0 }

// Spread varies a wait by a tenth either way.
func Spread(wait time.Duration) time.Duration {
	return wait - wait/10 + rand.N(wait/5+1) //nolint:gosec // spread, not secrecy
}
