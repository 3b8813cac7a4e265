package build

import (
	"context"
	"maps"

	"golang.org/x/sync/errgroup"
)

// Pin keeps the artifacts of these places in the store, those that are built later as well, and no
// others. Of a place whose commit is not here nothing can be kept. If ctx ends early, all stays as it is.
func (b *Builder) Pin(ctx context.Context, places []Place) {
	b.places.expectPlaces(len(places))
	ids := make([]key, len(places))
	var looks errgroup.Group
	looks.SetLimit(2 * lookers) // some wait for others of their source
	for i, p := range places {
		looks.Go(func() error {
			_, ids[i], _ = b.findContent(ctx, p) // the zero key is no content's
			return nil
		})
	}
	_ = looks.Wait() // none fails
	if ctx.Err() != nil {
		return
	}
	wanted := map[string]map[key]bool{}
	for i, p := range places {
		if ids[i] == (key{}) {
			continue
		}
		if wanted[p.Source] == nil {
			wanted[p.Source] = map[key]bool{}
		}
		wanted[p.Source][ids[i]] = true
	}
	b.pins.Lock()
	defer b.pins.Unlock()
	b.pinned = wanted
	b.deps.Store.Pin(b.memo.pinWanted(wanted))
}

// pinBuilt pins what was built if it is wanted.
func (b *Builder) pinBuilt(source string, id key) {
	b.pins.Lock()
	defer b.pins.Unlock()
	if !b.pinned[source][id] {
		return
	}
	if r, ok := b.memo.getRecord(id); ok {
		b.deps.Store.PinAlso(r.Digest)
	}
}

// Keep forgets all sources but those whose mirrors are still here.
func (b *Builder) Keep(here func(uid string) bool) {
	b.memo.forgetOthers(here)
	b.places.forgetOthers(here)
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.refused, func(_ key, r refusal) bool { return !here(r.source) })
}
