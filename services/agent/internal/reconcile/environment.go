package reconcile

import (
	"context"
	"time"

	"fairlead.dev/platform/hub"
)

// lookAroundEvery is between two looks at what the cluster can do, while something was rendered for that.
const lookAroundEvery = 5 * time.Minute

// outdated tells that what was rendered for this environment would be rendered differently now; "": for any.
func (c *Controller) outdated(environment string) bool {
	now := c.environment.Load()
	return now != nil && environment != "" && environment != *now
}

// lookAround looks now and then what the cluster can do, as long as something was rendered for that, and has that
// rendered anew when it has changed.
func (c *Controller) lookAround(ctx context.Context) {
	backoff := hub.Backoff{Floor: retryFloor, Max: lookAroundEvery}
	for {
		wait := hub.Spread(lookAroundEvery)
		if c.Inventory.Depends() {
			scope, err := c.Environment(ctx)
			if err != nil {
				wait = backoff.Next()
			} else if now, before := scope.Environment(), c.environment.Load(); before == nil || *before != now {
				c.environment.Store(&now)
				c.pokeAll()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// pokeAll has all keepers look what is to be done.
func (c *Controller) pokeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.keepers {
		k.poke()
	}
}
