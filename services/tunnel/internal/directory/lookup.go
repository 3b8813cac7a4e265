package directory

import (
	"context"
	"slices"
	"time"

	"fairlead.dev/platform/coordination"
)

// group is where the sessions of a cluster are listed.
func group(cluster string) string { return replicas + "/" + cluster }

// maxAsked bounds the replicas that are asked for a cluster of which nothing is known.
const maxAsked = 4

// Holders are the other replicas to ask for a cluster, the likeliest first: those that have sessions of it or else, in
// case the directory has lost something, any. In steady state it asks nobody.
func (d *Directory) Holders(ctx context.Context, cluster string) []Peer {
	ids := d.find(ctx, cluster)
	var holders []Peer
	others := d.Others()
	for _, r := range others {
		if slices.Contains(ids, r.ID) {
			holders = append(holders, r)
		}
	}
	if len(holders) == 0 {
		holders = others[:min(len(others), maxAsked)]
	}
	return holders
}

// Elsewhere tells whether a replica that does not drain says that it has a session of the cluster.
func (d *Directory) Elsewhere(ctx context.Context, cluster string) bool {
	ids := d.find(ctx, cluster)
	return slices.ContainsFunc(d.Others(), func(r Peer) bool { return !r.Draining && slices.Contains(ids, r.ID) })
}

// find returns the ids of the replicas that say they have sessions of a cluster.
func (d *Directory) find(ctx context.Context, cluster string) []string {
	d.mu.Lock()
	l := d.lookups[cluster]
	if l == nil {
		if len(d.lookups) >= maxLookups {
			clear(d.lookups)
		}
		l = &lookup{once: make(chan struct{}, 1)}
		d.lookups[cluster] = l
	}
	d.mu.Unlock()
	select {
	case l.once <- struct{}{}:
		defer func() { <-l.once }()
	case <-ctx.Done():
		return nil
	}
	if now := time.Now(); now.Before(l.failed) || !l.outdated.Swap(false) && now.Before(l.until) {
		return l.holds
	}
	members, err := d.deps.Coordinator.Members(ctx, group(cluster))
	switch {
	case err == nil:
		l.holds = holdersOf(members)
		l.until = time.Now().Add(lifetime(l.holds))
	case ctx.Err() != nil:
		l.outdated.Store(true)
	default:
		// The known replicas stay known. The next requests need not wait for coordination, too.
		l.outdated.Store(true)
		l.failed = time.Now().Add(nothingFor)
		d.deps.Log.DebugContext(ctx, "look up sessions", "cluster", cluster, "err", err)
	}
	return l.holds
}

func lifetime(holds []string) time.Duration {
	if len(holds) == 0 {
		return nothingFor
	}
	return foundFor
}

func holdersOf(members []coordination.Member) []string {
	var ids []string
	for _, m := range members {
		if id := m.Meta[metaReplica]; id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// changed takes in that the sessions of clusters changed.
func (d *Directory) changed(clusters []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, cluster := range clusters {
		d.outdateLocked(cluster)
	}
	d.tellLocked()
}

// outdateLocked has a cluster's replicas read again. The known replicas stay in case coordination can't be asked.
func (d *Directory) outdateLocked(cluster string) {
	if l := d.lookups[cluster]; l != nil {
		l.outdated.Store(true)
	}
}
