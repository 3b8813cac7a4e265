package index

import (
	"context"
	"time"
	"unique"

	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/database"
)

// moved is what has another status that states of services depend on.
type moved struct {
	refs     map[store.HubRef]state.RefHub
	sources  map[word]*state.Source // as they were; nil: not known
	clusters map[word]bool
}

func newMoved() moved {
	return moved{refs: map[store.HubRef]state.RefHub{}, sources: map[word]*state.Source{}, clusters: map[word]bool{}}
}

// origin is a ref of a source.
type origin struct {
	source word
	ref    string
}

// derive gives services the states that come of what moved. A source may have tens of thousands of them: only those
// that a follower looks at are read anew, to be shown. The caller holds mu.
func (b *Index) derive(now time.Time) {
	m := b.dirty
	b.derived = now
	if len(m.refs)+len(m.sources)+len(m.clusters) == 0 {
		return
	}
	b.dirty = newMoved()
	fetched := map[origin]bool{} // whether something else is known of a ref
	if len(m.refs)+len(m.sources) > 0 {
		for _, r := range b.rows[store.KindService] {
			b.deriveOf(r, m, fetched, now)
		}
		return
	}
	for cluster := range m.clusters { // which come one after the other, while a fleet comes
		for name := range b.services[cluster] {
			b.deriveOf(b.rows[store.KindService][name], m, fetched, now)
		}
	}
}

// deriveOf gives one service the state that comes of what moved. The caller holds mu.
func (b *Index) deriveOf(r *row, m moved, fetched map[origin]bool, now time.Time) {
	if r.essence == nil {
		return // the status is going to be read
	}
	essence := *r.essence
	follows := essence.Follow(m.refs)
	if was, ok := m.sources[r.source]; ok && !follows && !m.clusters[r.cluster] {
		for _, at := range []origin{{r.source, essence.Ref()}, {r.source, r.ref.Value()}} { // of a pin and of the ref, which are both shown
			other, known := fetched[at]
			if !known {
				other = was == nil || b.sources[r.source] == nil || !state.SameTruth(was, b.sources[r.source], at.ref)
				fetched[at] = other
			}
			follows = follows || other
		}
	}
	if follows || m.clusters[r.cluster] {
		b.replace(r, b.judged(r, &essence), now)
	}
}

// index keeps which services each cluster has. The caller holds mu.
func (b *Index) index(before, after *row) {
	if before != nil && after != nil && before.cluster == after.cluster {
		return
	}
	if before != nil && before.kind == store.KindService {
		if of := b.services[before.cluster]; len(of) > 1 {
			delete(of, before.name)
		} else {
			delete(b.services, before.cluster)
		}
	}
	if after != nil && after.kind == store.KindService {
		if b.services[after.cluster] == nil {
			b.services[after.cluster] = map[string]struct{}{}
		}
		b.services[after.cluster][after.name] = struct{}{}
	}
}

// judged returns the row with the state that comes of an essence. The caller holds mu.
func (b *Index) judged(r *row, essence *state.Essence) *row {
	source := b.sources[r.source]
	if source == nil {
		source = &state.Source{}
	}
	var cluster state.Cluster
	if c := b.rows[store.KindCluster][r.cluster.Value()]; c != nil {
		cluster = c.asCluster()
	}
	word, since := essence.Judge(source, &cluster, database.FromMicros(r.updated))
	if is := unique.Make(string(word)); is != r.state || database.Micros(since) != r.since || r.essence == nil || *essence != *r.essence {
		out, kept := *r, *essence
		out.state, out.since, out.essence = is, database.Micros(since), &kept
		return &out
	}
	return r
}

// lookedAt says whether a follower may look at a row, or at what it was when followers were told last. The caller holds
// mu.
func (b *Index) lookedAt(r *row, now time.Time) bool {
	told := b.byUID[r.uid]
	for l := range b.looks {
		if expr, ok := l.exprs[r.kind]; ok && (expr.Match(r, now) || told != nil && told != r && expr.Match(told, now)) {
			return true
		}
	}
	return false
}

// known is what there is to ask about services that nobody looks at. The caller holds mu.
func (b *Index) known(services []*row) []state.Known {
	out := make([]state.Known, 0, len(services))
	for _, r := range services {
		k := state.Known{UID: r.uid, Ref: r.follows.Value(), Catalog: r.cluster.Value() == ""}
		if c := b.rows[store.KindCluster][r.cluster.Value()]; c != nil {
			k.Cluster = c.uid
		}
		out = append(out, k)
	}
	return out
}

// assess gives services that nobody read yet their states, without reading all that is shown of them. The services are
// in the order of their uids.
func (b *Index) assess(ctx context.Context, services []*row) {
	b.mu.RLock()
	asked := b.known(services)
	b.mu.RUnlock()
	var essences map[string]state.Essence
	err := b.Store.ReadAll(ctx, func(ctx context.Context, v store.View) (err error) {
		essences, err = state.RenewInOrder(ctx, v, asked)
		return err
	})
	if err != nil {
		b.complain(ctx, err)
		return
	}
	b.failed = false
	b.answered(b.Now())
	b.renew(services, essences)
}

// renew gives services the states that come of new essences.
func (b *Index) renew(services []*row, essences map[string]state.Essence) {
	if len(services) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	for _, r := range services {
		essence := essences[r.uid]
		b.replace(r, b.judged(r, &essence), now)
	}
	b.announce()
}

// hear gives a service the state that comes of what was said about it, or has the service read anew: nothing is read of
// one that nobody looks at if change can tell what the service's essence is now. The caller holds mu.
func (b *Index) hear(service string, now time.Time, change func(*row, *state.Essence) bool) {
	known := b.byUID[service]
	if known == nil {
		return // the service will come with its status
	}
	ref := store.Ref{Kind: known.kind, Name: known.name}
	r := b.rows[store.KindService][known.name]
	if r == nil || r.uid != service || r.essence == nil || b.urgent[ref] || b.later[ref] || b.lookedAt(r, now) {
		b.later[ref] = true
		return
	}
	essence := *r.essence
	if !change(r, &essence) {
		b.later[ref] = true
		return
	}
	if is := b.judged(r, &essence); is != r {
		b.replace(r, is, now)
	}
}

// replace puts a derived row on the board: whoever looks at it will be told when it is read. The caller holds mu.
func (b *Index) replace(r, is *row, now time.Time) {
	if is == r { // which others look at; any other one is new
		unread := *r
		is = &unread
	}
	is.sum = 0 // the next status that is read of it is news
	b.step(b.rows[store.KindService][r.name], is)
	b.rows[store.KindService][r.name] = is
	if b.lookedAt(is, now) {
		b.later[store.Ref{Kind: store.KindService, Name: r.name}] = true
		return
	}
	if b.byUID[r.uid] != nil {
		b.byUID[r.uid] = is
	}
	b.unsaid = b.number
}

// Unreported returns those of some services that no report was heard of, by name. A service that is not on the board, or
// whose status was not read yet, is left out.
func (b *Index) Unreported(services []string) map[string]state.Unreported {
	out := make(map[string]state.Unreported, len(services))
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, name := range services {
		r := b.rows[store.KindService][name]
		if r == nil || r.essence == nil || r.essence.Reported() {
			continue
		}
		if cluster := b.rows[store.KindCluster][r.cluster.Value()]; cluster != nil {
			out[name] = state.Unreported{
				UID: r.uid, Cluster: cluster.name, ClusterUID: cluster.uid, Project: r.project.Value(), Revision: r.revision,
			}
		}
	}
	return out
}
