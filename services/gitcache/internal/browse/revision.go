package browse

import (
	"context"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/mirror"
)

const (
	// leastID is how many letters of a commit's id can stand for it, as in Git.
	leastID = 7
	// searched is how many commits are looked through for the beginning of an id.
	searched = 2000
	// named is how many refs a message lists.
	named = 10
)

// resolve finds the commit of a revision. The owner's own heads are the newest; elsewhere the
// published ones are.
func (b *Browser) resolve(ctx context.Context, o *mirror.Objects, s Source, m *mirror.Mirror, p Place) (git.Hash, error) {
	heads := m.Heads()
	for _, h := range s.Heads {
		if _, mine := heads[h.Ref]; !mine || !b.deps.Owned(s.UID) {
			heads[h.Ref] = h
		}
	}
	ref := catalog.CanonicalRef(p.Revision)
	if h, ok := heads[ref]; ok {
		return h.Commit, nil
	}
	if id, ok := git.ParseHash(ref); ok {
		if o.Has(id) {
			return id, nil
		}
		return id, errElsewhere
	}
	if id, ok := search(ctx, o, heads, p.Revision); ok {
		return id, nil
	}
	return git.Hash{}, unknown(b.deps.Owned(s.UID), p, heads)
}

// unknown says which refs there are: those that services name.
func unknown(owned bool, p Place, heads map[string]mirror.Head) error {
	if !owned && len(heads) == 0 {
		return errElsewhere // no head was published; the owner may have one
	}
	refs := slices.Sorted(maps.Keys(heads))
	list := strings.Join(refs[:min(len(refs), named)], ", ")
	if len(refs) > named {
		list += ", ..."
	}
	if list == "" {
		return noRevision("source %q has nothing yet: see `fairlead get source %s`", p.Source, p.Source)
	}
	return noRevision("source %q has no revision %q here. What is fetched is what services name: %s; and every commit below, by its id", p.Source, shown(p.Revision), list)
}

// search finds the commit that an id begins, among the newest of all heads.
func search(ctx context.Context, o *mirror.Objects, heads map[string]mirror.Head, prefix string) (found git.Hash, ok bool) {
	prefix = strings.ToLower(prefix)
	if len(prefix) < leastID || len(prefix) > git.HashDigits || strings.Trim(prefix, "0123456789abcdef") != "" {
		return found, false
	}
	seen := map[git.Hash]bool{}
	for _, ref := range slices.Sorted(maps.Keys(heads)) {
		for id := heads[ref].Commit; !id.IsZero() && !seen[id] && len(seen) < searched && ctx.Err() == nil; {
			seen[id] = true
			if strings.HasPrefix(id.String(), prefix) && id != found {
				if ok {
					return git.Hash{}, false // two begin like this
				}
				found, ok = id, true
			}
			c, err := o.Commit(id)
			if err != nil {
				break
			}
			id = c.Parent
		}
	}
	return found, ok
}

// shown is a revision as a message tells it.
func shown(revision string) string {
	if revision == "" {
		return "HEAD"
	}
	return revision
}
