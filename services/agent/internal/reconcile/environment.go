package reconcile

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"fairlead.dev/platform/retry"
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

// isOutdated tells that what was rendered for this environment would be rendered differently now; "": for any. Looks
// decide that, and not what the renders of other services find: where many services bring kinds, each would make all
// others be rendered again. Certificates are a part of it: they are renewed when their time comes. So are the objects
// that values are from.
func (s *site) isOutdated(environment string) bool {
	environment, renewal, versions := splitEnvironment(environment)
	if s.givenAnew(versions) || !renewal.IsZero() && !time.Now().Before(renewal) {
		return true
	}
	now := s.controller.environment.Load()
	if now == nil || environment == "" || environment == now.environment {
		return false
	}
	return !s.renders.sawAfter(now, environment)
}

// noteSeen notes what a render of the service found that the cluster can do.
func (s *site) noteSeen(environment string) {
	before := s.controller.environment.Load()
	s.renders.noteSight(sight{environment: environment, before: before})
	if before != nil && before.environment != environment {
		s.controller.changed.Store(true)
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
	backoff := retry.Backoff{Floor: retryFloor, Max: lookAroundEvery}
	for {
		wait := retry.Spread(lookAroundEvery)
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
		if !retry.Sleep(ctx, wait) {
			return
		}
	}
}

// pokeAll has all keepers look what is to be done.
func (c *Controller) pokeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.keepers {
		k.site.wakeKeeper()
	}
}

// renders is what renders of a service found. Repairs render beside the keeper's worker, so it has a guard of its own.
type renders struct {
	// restoring is held by a repair while it renders again what is applied.
	restoring sync.Mutex

	mu sync.Mutex // guards what follows
	// sight is what the last render found that the cluster can do; nil: there was none.
	sight *sight
	// behind names the versions that the streams knew of when values were last read from the cluster; what is newer
	// counts.
	behind string
	// images names the set whose images may all be pulled, and the registries that say so.
	images string
}

func (r *renders) noteSight(found sight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sight = &found
}

// sawAfter tells whether the last render saw this environment after a look.
func (r *renders) sawAfter(look *look, environment string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sight != nil && r.sight.before == look && r.sight.environment == environment
}

func (r *renders) setBehind(versions string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.behind = versions
}

func (r *renders) wasBehind() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.behind
}

func (r *renders) allowImages(images string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.images = images
}

func (r *renders) isAllowed(images string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.images == images
}
