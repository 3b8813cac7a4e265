package index

import (
	"context"
	"time"

	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/database"
)

// longOutage is how long the database is away until silent agents may be its own doing: an agent that lives is heard
// of within two minutes, and counts as away after five.
const longOutage = 30 * time.Second

// Sighting is what became of a cluster's agent. A sighting that may have been told before has to be told so that this
// can be seen.
type Sighting struct {
	Cluster                  state.Cluster
	Joined, Left, Lost, Back bool
	// Since is when one that is back was heard of last before.
	Since time.Time
}

// Presence is told what becomes of agents, and nothing now and then.
type Presence interface {
	Saw(ctx context.Context, seen []Sighting)
	// Away returns since when those clusters were silent that are lost by what was told last, by name.
	Away(ctx context.Context) (since map[string]time.Time, err error)
}

// askAway asks which clusters are lost by what was told of them, until there is an answer. Without one, nothing would
// tell that a cluster came back while no board stood.
func (b *Index) askAway(ctx context.Context) {
	for b.Presence != nil && ctx.Err() == nil {
		var err error
		if b.away, err = b.Presence.Away(ctx); err == nil {
			b.answered(b.Now())
			return
		}
		b.complain(ctx, err)
		b.rest(ctx)
	}
}

// answered notes that the database was read.
func (b *Index) answered(now time.Time) {
	if b.steady.IsZero() || !b.outage.IsZero() && now.Sub(b.outage) > longOutage {
		b.steady = now
	}
	b.outage = time.Time{}
}

// mayLive says whether a cluster that counts as away may only have had nobody to report to: it was heard of last before
// the database answered, and the hub has not listened since for as long as an agent may be silent.
func (b *Index) mayLive(r *row, now time.Time) bool {
	return r.seen < database.Micros(b.steady) && now.Before(state.ConnectedUntil(store.Seen{SeenTime: b.steady}))
}

// lost are the clusters that stayed away while the hub listened.
func (b *Index) lost(now time.Time) (out []Sighting) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for uid, s := range b.held {
		if !b.mayLive(b.byUID[uid], now) {
			delete(b.held, uid)
			out = append(out, s)
		}
	}
	return out
}

// sightings are what rows of clusters say that the board did not know.
func (b *Index) sightings(loaded []loadedRow, now time.Time) (out []Sighting) {
	for _, l := range loaded {
		cluster, ok := l.item.Value.(state.Cluster)
		if !ok {
			continue
		}
		is, was := l.row, &row{alive: true} // of one that is new here all is told: it may be news
		if since, away := b.away[is.name]; l.before != nil {
			was = l.before
		} else if away {
			was = &row{seen: database.Micros(since)}
		}
		s := Sighting{Cluster: cluster, Joined: is.joined != was.joined && is.joined != 0, Left: is.left != was.left && is.left != 0}
		_, held := b.held[is.uid]
		s.Lost = !is.alive && (was.alive || was.seen == 0 || held) && is.seen != 0 && is.left == 0
		if is.alive && !was.alive && was.seen != 0 && !held {
			s.Back, s.Since = true, database.FromMicros(was.seen)
		}
		delete(b.held, is.uid)
		if s.Lost && b.mayLive(is, now) {
			b.held[is.uid] = Sighting{Cluster: cluster, Lost: true}
			s.Lost = false
		}
		if s.Joined || s.Left || s.Lost || s.Back {
			out = append(out, s)
		}
	}
	return out
}
