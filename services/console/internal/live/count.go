package live

import (
	"context"
	"slices"
	"strings"

	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/store"
)

// maxGroups bounds the answer of Count: as many groups as a fleet has clusters, times a few states.
const maxGroups = 50_000

// Group is how many rows share their values.
type Group struct {
	// Values are those of the fields that were asked for; empty: the rows have no such thing.
	Values []string
	Count  int
}

// Count counts what the caller in ctx sees of a kind, and what fits a filter, by the values of fields.
func (b *Board) Count(ctx context.Context, kind store.Kind, question string, by []string) ([]Group, error) {
	s, err := b.Stand(Question{Kind: kind, Filter: question, Count: true, By: by})
	if err != nil {
		return nil, err
	}
	answer, _, err := s.Answer(ctx)
	return answer.Groups, err
}

// groups are counts by the values of fields. The zero value is none.
type groups struct {
	of    map[string]*Group // by their values
	order []*Group          // in the order of their values, if isSorted
	// isSorted: groups that come and go are put in their places. Until then, while all rows are counted, they are put at the end.
	isSorted bool
}

// add counts a row in, or out with -1.
func (g *groups) add(r *row, by []string, count int) error {
	values := valuesOf(r, by)
	key := strings.Join(values, labelEnd)
	of := g.of[key]
	if of == nil {
		if len(g.of) == maxGroups {
			return catalog.Refuse(catalog.Invalid, "group_by: there are more than %d combinations of values: leave a field out, or give a filter", maxGroups)
		}
		if of = (&Group{Values: values}); g.of == nil {
			g.of = map[string]*Group{}
		}
		g.of[key] = of
		if g.isSorted {
			g.order = slices.Insert(g.order, g.place(of), of)
		} else {
			g.order = append(g.order, of)
		}
	}
	if of.Count += count; of.Count <= 0 {
		g.sort()
		delete(g.of, key)
		at := g.place(of)
		g.order = slices.Delete(g.order, at, at+1)
	}
	return nil
}

// place is where a group is in the order, or belongs.
func (g *groups) place(of *Group) int {
	at, _ := slices.BinarySearchFunc(g.order, of, inOrder)
	return at
}

func (g *groups) sort() {
	if !g.isSorted {
		slices.SortFunc(g.order, inOrder)
		g.isSorted = true
	}
}

func inOrder(a, b *Group) int { return slices.Compare(a.Values, b.Values) }

func valuesOf(r *row, by []string) []string {
	values := make([]string, len(by))
	for i, name := range by {
		value, _ := r.Field(name)
		values[i] = value.Text
	}
	return values
}

// sorted are the groups in the order of their values.
func (g *groups) sorted() []Group {
	g.sort()
	out := make([]Group, len(g.order))
	for i, of := range g.order {
		out[i] = *of
	}
	return out
}
