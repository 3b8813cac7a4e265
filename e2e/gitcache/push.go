package gitcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"fairlead.dev/platform/retry"
)

// forced is how many pushes come to one that is by force.
const forced = 10

// Pushes pushes to random repositories, with pauses of about pace, until the function is called.
func (f *Fleet) Pushes(ctx context.Context, seed uint64, pace time.Duration) (end func() (pushes int, err error)) {
	random := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // a test's choices
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	var pushes int
	var failed error
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			repos := f.Repos()
			repo := repos[random.IntN(len(repos))]
			push := repo.Push
			if random.IntN(forced) == 0 {
				push = repo.ForcePush
			}
			// Not under ctx: git would leave its lock behind.
			if _, err := push(context.WithoutCancel(ctx)); err != nil {
				failed = errors.Join(failed, fmt.Errorf("push to %s: %w", repo.Name, err))
			}
			pushes++
			retry.Sleep(ctx, retry.Around(pace))
		}
	}()
	return func() (int, error) {
		cancel()
		<-done
		return pushes, failed
	}
}
