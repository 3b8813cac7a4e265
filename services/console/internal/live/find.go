package live

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"slices"

	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/filter"
	"fairlead.dev/services/console/internal/store"
)

// place is behind which row a page begins.
type place struct {
	// Of is the filter and the order that it belongs to.
	Of     uint64
	Values []filter.Value `json:",omitempty"`
	Name   string
}

// Find implements catalog.Finder.
func (b *Board) Find(ctx context.Context, kind store.Kind, page catalog.Page) (names []string, next string, err error) {
	s, err := b.Stand(Question{Kind: kind, Filter: page.Filter, Order: page.Order, Token: page.Token, Size: page.Size})
	if err != nil {
		return nil, "", err
	}
	sees, err := b.Viewer.Viewer(ctx, true)
	if err != nil {
		return nil, "", err
	}
	if err := b.current(ctx); err != nil {
		return nil, "", err
	}
	s.find(sees, b.Now())
	for _, r := range s.page.found {
		names = append(names, r.name)
	}
	return names, s.page.next, nil
}

// ranked is a row and what its place depends on.
type ranked struct {
	*row
	values []filter.Value
}

func compare(order filter.Order, x, y ranked) int {
	return cmp.Or(order.Compare(x.values, y.values), cmp.Compare(x.name, y.name))
}

// first returns up to n rows behind a place that who looks sees, in their order. Most rows come behind the last of what was
// found so far, and are passed over.
func first(rows []*row, order filter.Order, after *place, sees Sees, n int) []ranked {
	inOrder := func(x, y ranked) int { return compare(order, x, y) }
	var begin ranked
	if after != nil {
		begin = ranked{&row{name: after.Name}, after.Values}
	}
	var out []ranked
	var end *ranked // rows behind it do not count
	var values []filter.Value
	for _, r := range rows {
		values = order.Values(values[:0], r)
		at := ranked{r, values}
		if after != nil && inOrder(at, begin) <= 0 || end != nil && inOrder(at, *end) > 0 || !r.seenBy(sees) {
			continue
		}
		out = append(out, ranked{r, slices.Clone(values)})
		if len(out) == 2*n {
			slices.SortFunc(out, inOrder)
			out = out[:n]
			last := out[n-1]
			end = &last
		}
	}
	slices.SortFunc(out, inOrder)
	return out[:min(len(out), n)]
}

// fitting returns the rows that fit, and the board and the step that they are of.
func (b *Board) fitting(kind store.Kind, expr *filter.Expr) (out []*row, nonce string, at int64) {
	now := b.Now()
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, r := range b.rows[kind] {
		if expr.Match(r, now) {
			out = append(out, r)
		}
	}
	return out, b.nonce, b.stepped
}

func hash(parts ...string) uint64 {
	sum := fnv.New64a()
	for _, p := range parts {
		_, _ = sum.Write([]byte(p + "\x00")) // never fails
	}
	return sum.Sum64()
}

func encodePlace(p place) string {
	text, _ := json.Marshal(p) // a place can always be encoded
	return base64.RawURLEncoding.EncodeToString(text)
}

func parsePlace(token string, of uint64, values int) (*place, error) {
	if token == "" {
		return nil, nil //nolint:nilnil // the beginning
	}
	var p place
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || json.Unmarshal(text, &p) != nil || len(p.Values) != values {
		return nil, catalog.Refuse(catalog.Invalid, "page_token: is not one that a list returned")
	}
	if p.Of != of {
		return nil, catalog.Refuse(catalog.Invalid, "page_token: is of a list with another filter or order: begin anew")
	}
	return &p, nil
}
