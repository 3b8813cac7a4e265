package rpc

import (
	"maps"
	"sync"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/distributor/internal/plan"
)

const (
	// soon is when an agent asks again for which there is more in a moment, or already at another replica.
	soon = 5 * time.Second
	// pendingGrows is by how many times that it grows at full pressure, for agents whose content is being built.
	pendingGrows = 11
	// believed is how long an agent is believed that there is a newer catalog while the console says that
	// there is none: well over the time in which a console may not know of what another one wrote.
	believed = 30 * time.Second
)

// claim is what a cluster's agent says that it has heard of, and since when.
type claim struct {
	revision int64
	since    time.Time
}

// claims are those of agents that have heard of more than this replica. A claim that the console denies for
// long is about a catalog that was lost: its database was put back to an earlier state. Each counts for its
// own cluster only: an agent may say what it likes.
type claims struct {
	mu sync.Mutex // guards of
	of map[string]claim
}

// compare asks the plan, and believes the agent that there is something newer as long as that can be. claimed says that
// it can't be: what the agent has heard of was lost.
func (d *Delivery) compare(cluster string, req *deliveryv1.SyncRequest, has map[string]string) (diff plan.Difference, claimed bool, err error) {
	diff, err = d.deps.Plan.Compare(cluster, req.GetDigest(), has, req.GetRevision(), req.GetNudged())
	if err == nil && d.claims.void(cluster, req.GetRevision(), diff.Ahead, time.Now(), d.deps.Confirmed) {
		diff, err = d.deps.Plan.Compare(cluster, req.GetDigest(), has, 0, 0)
		return diff, true, err
	}
	return diff, false, err
}

// void says whether a claim is about a catalog that was lost.
func (c *claims) void(cluster string, revision int64, ahead bool, now time.Time, confirmed func() time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ahead {
		if len(c.of) > 0 {
			delete(c.of, cluster)
		}
		return false
	}
	is := c.of[cluster]
	if is.revision != revision {
		is = claim{revision, now}
		c.of[cluster] = is
	}
	return confirmed().After(is.since.Add(believed))
}

// Forget drops what is known of clusters that left the catalog.
func (d *Delivery) Forget(exists func(cluster string) bool) {
	d.claims.mu.Lock()
	defer d.claims.mu.Unlock()
	maps.DeleteFunc(d.claims.of, func(cluster string, _ claim) bool { return !exists(cluster) })
}
