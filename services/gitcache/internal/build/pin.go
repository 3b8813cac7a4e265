package build

import "maps"

// Pin keeps the artifacts of these places in the store, those that are built later as well, and no
// others. Of a place whose commit is not here nothing can be kept.
func (b *Builder) Pin(places []Place) {
	b.places.expect(len(places))
	wanted := map[string]map[key]bool{}
	for _, p := range places {
		if _, id, err := b.content(p); err == nil {
			if wanted[p.Source] == nil {
				wanted[p.Source] = map[key]bool{}
			}
			wanted[p.Source][id] = true
		}
	}
	b.pins.Lock()
	defer b.pins.Unlock()
	b.pinned = wanted
	b.deps.Store.Pin(b.memo.pin(wanted))
}

// built pins what was built if it is wanted.
func (b *Builder) built(source string, id key) {
	b.pins.Lock()
	defer b.pins.Unlock()
	if !b.pinned[source][id] {
		return
	}
	if r, ok := b.memo.get(id); ok {
		b.deps.Store.PinAlso(r.Digest)
	}
}

// Keep forgets all sources but those whose mirrors are still here.
func (b *Builder) Keep(here func(uid string) bool) {
	b.memo.keep(here)
	b.places.keep(here)
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.refused, func(_ key, r refusal) bool { return !here(r.source) })
}
