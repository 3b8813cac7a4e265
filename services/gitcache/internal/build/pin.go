package build

import (
	"fairlead.dev/platform/artifact"
)

// Pin keeps the artifacts of these places in the store, those that are built later as well, and no
// others. Of a place whose commit is not here nothing can be kept.
func (b *Builder) Pin(places []Place) {
	wanted := make(map[string]bool, len(places))
	for _, p := range places {
		if _, id, err := b.content(p); err == nil {
			wanted[id] = true
		}
	}
	b.pins.Lock()
	defer b.pins.Unlock()
	b.pinned = wanted
	b.repin()
}

// built pins what was built if it is wanted.
func (b *Builder) built(sourceID string) {
	b.pins.Lock()
	defer b.pins.Unlock()
	if b.pinned[sourceID] {
		b.repin()
	}
}

// repin tells the store. pins is held.
func (b *Builder) repin() {
	digests := make([]artifact.Digest, 0, len(b.pinned))
	for id := range b.pinned {
		if r, ok := b.memo.get(id); ok {
			digests = append(digests, r.Digest)
		}
	}
	b.deps.Store.Pin(digests)
}
