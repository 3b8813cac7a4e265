package reconcile

import (
	"context"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/platform/hub"
)

// lookAroundEvery is between two looks at what the cluster can do, while something was rendered for that.
const lookAroundEvery = 5 * time.Minute

// look is what the cluster can do, as a look of lookAround found it.
type look struct{ environment string }

// sight is what a render found that the cluster can do, and the look before it.
type sight struct {
	environment string
	before      *look
}

// outdated tells that what was rendered for this environment would be rendered differently now; "": for any. Looks decide that, and not
// what the renders of other services find: where many services bring kinds, each would make all others be rendered again. Certificates
// are a part of it: they are renewed when their time comes. So are the objects that values are from.
func (k *keeper) outdated(environment string) bool {
	environment, renewal, versions := splitEnvironment(environment)
	if k.givenAnew(versions) || !renewal.IsZero() && !time.Now().Before(renewal) {
		return true
	}
	now := k.controller.environment.Load()
	if now == nil || environment == "" || environment == now.environment {
		return false
	}
	rendered := k.sight.Load()
	return rendered == nil || rendered.before != now || rendered.environment != environment // else the render is newer than the look
}

// sees notes what a render of the service found that the cluster can do.
func (k *keeper) sees(environment string) {
	before := k.controller.environment.Load()
	k.sight.Store(&sight{environment: environment, before: before})
	if before != nil && before.environment != environment {
		k.controller.changed.Store(true)
	}
}

// joinEnvironment writes what a render depends on besides its content: what the cluster can do, when the first of its
// certificates is to be renewed, and the versions of the objects that values are from.
func joinEnvironment(environment string, renewal time.Time, versions string) string {
	if !renewal.IsZero() {
		environment += "@" + strconv.FormatInt(renewal.Unix(), 10)
	}
	if versions != "" {
		environment += "#" + versions
	}
	return environment
}

// splitEnvironment reads what joinEnvironment wrote.
func splitEnvironment(text string) (environment string, renewal time.Time, versions string) {
	text, versions, _ = strings.Cut(text, "#")
	environment, at, ok := strings.Cut(text, "@")
	if seconds, err := strconv.ParseInt(at, 10, 64); ok && err == nil {
		renewal = time.Unix(seconds, 0)
	}
	return environment, renewal, versions
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
			} else {
				changed := c.changed.Swap(false)
				now := &look{environment: scope.Environment()}
				if before := c.environment.Swap(now); changed || before == nil || before.environment != now.environment {
					c.pokeAll()
				}
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
