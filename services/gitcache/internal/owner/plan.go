package owner

import (
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"fairlead.dev/services/gitcache/internal/fetch"
)

// plan is what a listing means for the wanted refs.
type plan struct {
	fresh bool // clone beside the damaged mirror
	// objects are where wanted refs point now. A ref that is not in here keeps its last good head.
	objects map[string]plumbing.Hash
	seen    map[string]bool // refs whose heads are those of this listing
	// wants are objects that have to be fetched, for refs; commits those that a service names.
	wants, commits []plumbing.Hash
	troubles       []trouble
}

func (t *tenure) plan(s Source, l *fetch.Listing) *plan {
	p := &plan{fresh: t.mirror.Doubted(), objects: map[string]plumbing.Hash{}, seen: map[string]bool{}}
	if len(l.Refs) == 0 {
		p.troubles = append(p.troubles, trouble{text: t.emptied()})
		return p
	}
	o := t.mirror.Objects()
	defer o.Close()
	has := func(id plumbing.Hash) bool { return !p.fresh && o.Has(id) }
	for _, ref := range slices.Sorted(maps.Keys(wanted(s))) {
		id, listed := l.Refs[ref]
		named := plumbing.IsHash(ref)
		if named {
			id = plumbing.NewHash(ref)
		}
		switch {
		case !listed && !named:
			p.lose(ref, t.lost(s, ref))
			continue
		case t.checked && !p.fresh && t.heads[ref].Object == id: // the usual case costs nothing
		case has(id):
		case named && !slices.Contains(slices.Collect(maps.Values(l.Refs)), id):
			p.commits = append(p.commits, id)
		default:
			p.wants = append(p.wants, id)
		}
		p.objects[ref] = id
	}
	t.checked = true
	return p
}

func (p *plan) lose(ref, text string) {
	if text != "" {
		p.troubles = append(p.troubles, trouble{ref, text})
	}
}

func wanted(s Source) map[string][]string {
	wants := maps.Clone(s.Wants)
	if wants == nil {
		wants = map[string][]string{}
	}
	if _, ok := wants[RefHead]; !ok {
		wants[RefHead] = nil
	}
	return wants
}
