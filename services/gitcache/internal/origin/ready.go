package origin

import "errors"

// errEmpty is for whoever looks at a replica that is not ready.
var errEmpty = errors.New("nothing is fetched or copied yet, though there is content that belongs here. It becomes ready with the first that comes")

// Ready says whether this replica has something to give. With sources that it should hold and nothing of
// any of them, its disk is new or was lost: others should not be stopped because this one is there.
func (o *Origin) Ready() error {
	if o.ready.Load() {
		return nil
	}
	empty := false
	for _, s := range o.deps.Catalog.Published() {
		if o.deps.Keeps != nil && !o.deps.Keeps(s.UID) {
			continue
		}
		if o.holds(s) {
			empty = false
			break
		}
		empty = true
	}
	if empty {
		return errEmpty
	}
	o.ready.Store(true)
	return nil
}

// holds says whether any of a source's heads is here. Not all: a ref that upstream has no more, or can't
// be fetched, must not hold a replica back for ever.
func (o *Origin) holds(s Source) bool {
	m, ok := o.deps.Mirrors.Lookup(s.UID)
	if !ok {
		return false
	}
	objects := m.Objects()
	defer objects.Close()
	for _, h := range s.Heads {
		if objects.Has(h.Commit) {
			return true
		}
	}
	return false
}
