package index

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/store"
)

const (
	// defaultFound is how many resources a search returns if it does not say.
	defaultFound = 20
	// shortestCommit is how much of a commit a person gives at least.
	shortestCommit = 7
)

// How well a word fits a resource, the best first.
const (
	isName = iota
	beginsName
	beginsWordOfName
	inName
	isElsewhere // a project, cluster, namespace or source, or the beginning of a commit
	isLabel
	isKind
	noFit
)

// Found is a resource that a search leads to.
type Found struct {
	Kind store.Kind
	Name string
	// Field is what of it fits worst.
	Field                   string
	State, Cluster, Project string
}

// match is a row that fits, and how well.
type match struct {
	row          *row
	field        string
	sum, badness int
}

// Search returns what the caller in ctx sees and a text leads to, the best first, and how many there are.
func (b *Index) Search(ctx context.Context, text string, kinds []store.Kind, limit int) (out []Found, total int, err error) {
	sees, err := b.Viewer.Viewer(ctx, true)
	if err != nil {
		return nil, 0, err
	}
	if err := b.current(ctx); err != nil {
		return nil, 0, err
	}
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 {
		return nil, 0, refusal.New(refusal.Invalid, "text: has no word")
	}
	found := slices.DeleteFunc(b.matches(words, kinds), func(m match) bool { return !m.row.seenBy(sees) })
	slices.SortFunc(found, better)
	total = len(found)
	for _, m := range found[:min(total, cmp.Or(limit, defaultFound))] {
		out = append(out, Found{Kind: m.row.kind, Name: m.row.name, Field: m.field, State: m.row.state.Value(), Cluster: m.row.cluster.Value(), Project: m.row.project.Value()})
	}
	return out, total, nil
}

// better puts what fits better first, then what is worse off.
func better(x, y match) int {
	return cmp.Or(cmp.Compare(x.sum, y.sum), cmp.Compare(y.badness, x.badness), cmp.Compare(len(x.row.name), len(y.row.name)),
		cmp.Compare(x.row.name, y.row.name), cmp.Compare(x.row.kind, y.row.kind))
}

// matches are the rows that all words fit.
func (b *Index) matches(words []string, kinds []store.Kind) (out []match) {
	if len(kinds) == 0 {
		kinds = store.Kinds()
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, kind := range kinds {
		states := Fields(kind)["state"]
		for _, r := range b.rows[kind] {
			if m := (match{row: r, badness: states.Level(r.state.Value())}); m.fit(words) {
				out = append(out, m)
			}
		}
	}
	return out
}

// fit says whether all words fit, and notes how well.
func (m *match) fit(words []string) bool {
	worst := -1
	for _, want := range words {
		rank, field := m.row.rank(want)
		if rank == noFit {
			return false
		}
		m.sum += rank
		if rank > worst {
			worst, m.field = rank, field
		}
	}
	return true
}

// rank says how well a word fits a row, and what of it. Names are in small letters.
func (r *row) rank(want string) (rank int, field string) {
	switch i := strings.Index(r.name, want); {
	case r.name == want:
		return isName, "name"
	case i == 0:
		return beginsName, "name"
	case strings.Contains(r.name, "-"+want):
		return beginsWordOfName, "name"
	case i > 0:
		return inName, "name"
	}
	for _, of := range []struct {
		field string
		value word
	}{{"cluster", r.cluster}, {"project", r.project}, {"namespace", r.namespace}, {"source", r.source}} {
		if of.value.Value() == want {
			return isElsewhere, of.field
		}
	}
	if r.essence != nil && len(want) >= shortestCommit && strings.HasPrefix(r.essence.Commit(), want) {
		return isElsewhere, "commit"
	}
	if key := r.labels.found(want); key != "" {
		return isLabel, "labels." + key
	}
	if want == string(r.kind) || want == string(r.kind)+"s" {
		return isKind, "kind"
	}
	return noFit, ""
}
