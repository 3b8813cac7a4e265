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

// After is Next, and besides what the hub asked for in Retry-After when it refused.
func (b *Backoff) After(err error) time.Duration {
	wait := b.Next()
	if refused, ok := errors.AsType[*connect.Error](err); ok {
		if s, err := strconv.Atoi(refused.Meta().Get("Retry-After")); err == nil && s > 0 {
			wait += min(time.Duration(s)*time.Second, maxRetryAfter)
		}
	}
	return wait
}

// Reset forgets the failures.
func (b *Backoff) Reset() { b.failures = 0 }

// Spread varies a wait by a tenth either way.
func Spread(wait time.Duration) time.Duration {
	return wait - wait/10 + rand.N(wait/5+1) //nolint:gosec // spread, not secrecy
}
