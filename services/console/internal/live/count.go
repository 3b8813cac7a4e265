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

// groups are counts by the values of fields.
type groups map[string]*Group

// add counts a row in, or out with -1.
func (g groups) add(r *row, by []string, count int) error {
	values := valuesOf(r, by)
	key := strings.Join(values, labelEnd)
	of := g[key]
	if of == nil {
		if len(g) == maxGroups {
			return catalog.Refuse(catalog.Invalid, "group_by: there are more than %d combinations of values: leave a field out, or give a filter", maxGroups)
		}
		of = &Group{Values: values}
		g[key] = of
	}
	if of.Count += count; of.Count <= 0 {
		delete(g, key)
	}
	return nil
}

func valuesOf(r *row, by []string) []string {
	values := make([]string, len(by))
	for i, name := range by {
		value, _ := r.Field(name)
		values[i] = value.Text
	}
	return values
}

// sorted are the groups in the order of their values.
func (g groups) sorted() []Group {
	out := make([]Group, 0, len(g))
	for _, of := range g {
		out = append(out, *of)
	}
	slices.SortFunc(out, func(a, b Group) int { return slices.Compare(a.Values, b.Values) })
	return out
}
