package reconcile

import (
	"context"
	"fmt"
	"time"

	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/object"
)

const (
	// reasonAfter is how long an object is not healthy before the keeper asks its pods and events why: most become
	// healthy by then. reasonAgain is between two questions at first, reasonMax later.
	reasonAfter, reasonAgain, reasonMax = 3 * time.Second, 10 * time.Second, 2 * time.Minute
	// mostReasons bounds the objects of a service that are asked: a few requests each.
	mostReasons = 5
)

// reason is why an object is not healthy, as its pods or events said when the keeper asked them.
type reason struct {
	since, asked time.Time
	times        int
	text         string
}

// giveReasons adds to the messages of objects why they are not healthy, such as a pod that can't be scheduled, and says
// when to ask again; 0: never.
func (w *worker) giveReasons(ctx context.Context, bad []health.Health) (again time.Duration) {
	now := time.Now()
	known := w.reasons
	w.reasons = map[object.Key]reason{}
	for i := range bad {
		h := &bad[i]
		if !apply.HasReasons(h.Ref.GVK().GroupKind()) || h.State == health.Missing || h.State == health.Unknown || h.Message == health.Leaving {
			continue
		}
		if len(w.reasons) == mostReasons {
			break
		}
		one, isKnown := known[h.Ref.Key]
		if !isKnown {
			one.since = now
		}
		due := one.since.Add(reasonAfter)
		if one.times > 0 {
			due = one.asked.Add(min(reasonAgain<<min(one.times-1, 8), reasonMax))
		}
		if !now.Before(due) {
			one.text, one.asked = w.site.controller.Applier.Unhealthy(ctx, h.Ref), now
			one.times++
			due = now.Add(min(reasonAgain<<min(one.times-1, 8), reasonMax))
		}
		if wait := max(due.Sub(now), time.Millisecond); again == 0 || wait < again {
			again = wait
		}
		if one.text != "" {
			h.Message = fmt.Sprintf("%s (%s)", h.Message, one.text)
		}
		w.reasons[h.Ref.Key] = one
	}
	return again
}
