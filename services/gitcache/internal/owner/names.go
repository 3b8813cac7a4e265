package owner

import (
	"strings"

	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/git"
	"fairlead.dev/services/gitcache/internal/pause"
	"fairlead.dev/services/gitcache/internal/semver"
	"fairlead.dev/services/gitcache/internal/source"
)

// wantedNames are the refs that a poll asks upstream for: those that are wanted, and nothing else of what can be many
// thousands.
func (t *tenure) wantedNames(s source.Source) (n gitwire.Names) {
	for _, ref := range s.WantedRefs() {
		switch {
		case git.IsHash(ref):
			if t.missesCommit(ref) {
				return gitwire.Names{} // any ref may be the one that has it
			}
		case strings.HasPrefix(ref, catalog.ChartPrefix), strings.HasPrefix(ref, catalog.TagPrefix), strings.HasPrefix(ref, catalog.DigestPrefix): // no ref of Git
		case strings.HasPrefix(ref, catalog.SemverPrefix):
			n.Prefixes = append(n.Prefixes, semver.Prefixes()...)
		default:
			n.Refs = append(n.Refs, ref)
		}
		if other := namesakeOf(ref); t.lacking[ref] && other != "" {
			n.Refs = append(n.Refs, other)
		}
	}
	return n
}

// missesCommit tells whether a commit is not here and is going to be asked for.
func (t *tenure) missesCommit(commit string) bool {
	id := git.HashOf(commit)
	return t.pauses.Check(pause.KeyOf(id)) == nil && !t.mirror.Has(id)
}

// noteLacking notes which wanted refs a listing lacks, and tells whether namesakes have to be asked for that were not
// yet.
func (t *tenure) noteLacking(s source.Source, l *gitwire.Listing) (again bool) {
	lacking := map[string]bool{}
	for _, ref := range s.WantedRefs() {
		if _, ok := l.Refs[ref]; ok || namesakeOf(ref) == "" {
			continue
		}
		lacking[ref] = true
		again = again || !t.lacking[ref] && !l.Whole() && !l.Empty()
	}
	t.lacking = lacking
	return again
}

// namesakeOf is the tag that is called like a branch, or the branch that is called like a tag; "" for other refs.
func namesakeOf(ref string) string {
	if name, ok := strings.CutPrefix(ref, source.BranchPrefix); ok {
		return source.TagPrefix + name
	}
	if name, ok := strings.CutPrefix(ref, source.TagPrefix); ok {
		return source.BranchPrefix + name
	}
	return ""
}
