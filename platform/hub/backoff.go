package hub

import (
	"math/rand/v2"
	"time"
)

// Backoff gives growing waits with full jitter: anything from Floor to the bound, which doubles with every
// failure up to Max. So agents that failed together do not come back together.
type Backoff struct {
	Floor, Max time.Duration

	failures int
}

// firstBound is the upper bound of the first wait.
const firstBound = time.Second

// Next is how long to wait after one more failure.
func (b *Backoff) Next() time.Duration {
	bound := min(firstBound<<min(b.failures, 20), b.Max)
	b.failures++
	return b.Floor + rand.N(max(bound-b.Floor, 1)) //nolint:gosec // spread, not secrecy
}

// Reset forgets the failures.
func (b *Backoff) Reset() { b.failures = 0 }

// Spread varies a wait by a tenth either way.
func Spread(wait time.Duration) time.Duration {
	return wait - wait/10 + rand.N(wait/5+1) //nolint:gosec // spread, not secrecy
}
