package live

import (
	"context"
	"slices"
	"strings"

	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/filter"
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
	fields := Fields(kind)
	expr, err := filter.Parse(question, fields)
	if err != nil {
		return nil, catalog.Refuse(catalog.Invalid, "filter: %v", err)
	}
	for _, name := range by {
		if err := fields.Worded(name); err != nil {
			return nil, catalog.Refuse(catalog.Invalid, "group_by: %v", err)
		}
	}
	sees, err := b.Viewer.Viewer(ctx, true)
	if err != nil {
		return nil, err
	}
	if err := b.current(ctx); err != nil {
		return nil, err
	}
	groups := map[string]*Group{}
	for _, r := range b.fitting(kind, expr) {
		if !r.seenBy(sees) {
			continue
		}
		values := make([]string, len(by))
		for i, name := range by {
			value, _ := r.Field(name)
			values[i] = value.Text
		}
		key := strings.Join(values, labelEnd)
		if groups[key] == nil {
			if len(groups) == maxGroups {
				return nil, catalog.Refuse(catalog.Invalid, "group_by: there are more than %d combinations of values: leave a field out, or give a filter", maxGroups)
			}
			groups[key] = &Group{Values: values}
		}
		groups[key].Count++
	}
	out := make([]Group, 0, len(groups))
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int { return slices.Compare(a.Values, b.Values) })
	return out, nil
}
