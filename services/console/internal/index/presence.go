package index

import (
	"context"
	"time"

	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store/database"
)

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
			return
		}
		b.complain(ctx, err)
		b.rest(ctx)
	}
}

// sightings are what rows of clusters say that the board did not know.
func (b *Index) sightings(loaded []loadedRow) (out []Sighting) {
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
		s.Lost = !is.alive && (was.alive || was.seen == 0) && is.seen != 0 && is.left == 0
		if is.alive && !was.alive && was.seen != 0 {
			s.Back, s.Since = true, database.FromMicros(was.seen)
		}
		if s.Joined || s.Left || s.Lost || s.Back {
			out = append(out, s)
		}
	}
	return out
}
