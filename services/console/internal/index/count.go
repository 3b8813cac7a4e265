package index

import (
	"context"
	"slices"
	"strings"

	"fairlead.dev/platform/refusal"
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
func (b *Index) Count(ctx context.Context, kind store.Kind, question string, by []string) ([]Group, error) {
	s, err := b.Stand(Question{Kind: kind, Filter: question, Count: true, By: by})
	if err != nil {
		return nil, err
	}
	answer, _, err := s.Answer(ctx)
	return answer.Groups, err
}

// groups are counts by the values of fields, and what they were in the last answer. The zero value is none.
type groups struct {
	of map[string]Group // by their values; none is empty
	// answered has the counts of the last answer, of those groups that rows came to or went from since.
	answered map[string]Group
}

// add counts a row in, or out with -1.
func (g *groups) add(r *row, by []string, count int) error {
	values := valuesOf(r, by)
	key := strings.Join(values, labelEnd)
	of, ok := g.of[key]
	if !ok {
		if len(g.of) == maxGroups {
			return refusal.New(refusal.Invalid, "group_by: there are more than %d combinations of values: leave a field out, or give a filter", maxGroups)
		}
		of = Group{Values: values}
	}
	if g.of == nil {
		g.of = map[string]Group{}
	}
	g.noteAnswered(key, of)
	of.Count += count
	g.of[key] = of
	if of.Count <= 0 {
		delete(g.of, key)
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

// answerAll returns the groups in the order of their values, as an answer.
func (g *groups) answerAll() []Group {
	out := make([]Group, 0, len(g.of))
	for _, of := range g.of {
		out = append(out, of)
	}
	g.answered = nil
	return inOrder(out)
}

// answerChanges returns the groups whose counts are not those of the last answer, in the order of their values, as an
// answer. A group that has no rows any more has the count 0.
func (g *groups) answerChanges() (changes []Group) {
	for key, before := range g.answered {
		if now := g.of[key].Count; now != before.Count {
			changes = append(changes, Group{before.Values, now})
		}
	}
	g.answered = nil
	return inOrder(changes)
}

// replace takes new counts of all rows, and keeps what the last answer had.
func (g *groups) replace(counted groups) {
	for key, of := range g.of {
		g.noteAnswered(key, of)
	}
	for key, of := range counted.of {
		g.noteAnswered(key, Group{Values: of.Values})
	}
	g.of = counted.of
}

// noteAnswered keeps what the last answer had of a group, unless it is kept already.
func (g *groups) noteAnswered(key string, had Group) {
	if _, ok := g.answered[key]; ok {
		return
	}
	if g.answered == nil {
		g.answered = map[string]Group{}
	}
	g.answered[key] = had
}

func inOrder(list []Group) []Group {
	slices.SortFunc(list, func(a, b Group) int { return slices.Compare(a.Values, b.Values) })
	return list
}
