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
	fields := Fields(kind)
	expr, err := filter.Parse(page.Filter, fields)
	if err != nil {
		return nil, "", catalog.Refuse(catalog.Invalid, "filter: %v", err)
	}
	order, err := filter.ParseOrder(page.Order, fields)
	if err != nil {
		return nil, "", catalog.Refuse(catalog.Invalid, "order_by: %v", err)
	}
	of := hash(string(kind), page.Filter, page.Order)
	after, err := parsePlace(page.Token, of, len(order))
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
	found := b.fitting(kind, expr, order)
	slices.SortFunc(found, func(x, y ranked) int { return compare(order, x, y) })
	from := 0
	if after != nil {
		at := ranked{&row{name: after.Name}, after.Values}
		from, _ = slices.BinarySearchFunc(found, at, func(x, at ranked) int {
			return cmp.Or(compare(order, x, at), -1) // what is at the place comes before the page
		})
	}
	size := page.Limit()
	for i, r := range found[from:] {
		if !r.seenBy(sees) {
			continue
		}
		if len(names) == size {
			last := found[from:][:i]
			next = encodePlace(place{Of: of, Values: last[lastNamed(last, names[size-1])].values, Name: names[size-1]})
			break
		}
		names = append(names, r.name)
	}
	return names, next, nil
}

// lastNamed is where the row of a name is, looked for from the end.
func lastNamed(rows []ranked, name string) int {
	for i, r := range slices.Backward(rows) {
		if r.name == name {
			return i
		}
	}
	return 0
}

// ranked is a row and what its place depends on.
type ranked struct {
	*row
	values []filter.Value
}

func compare(order filter.Order, x, y ranked) int {
	return cmp.Or(order.Compare(x.values, y.values), cmp.Compare(x.name, y.name))
}

func (b *Board) fitting(kind store.Kind, expr *filter.Expr, order filter.Order) []ranked {
	now := b.Now()
	b.mu.RLock()
	defer b.mu.RUnlock()
	var out []ranked
	for _, r := range b.rows[kind] {
		if expr.Match(r, now) {
			out = append(out, ranked{r, order.Values(r)})
		}
	}
	return out
}

func hash(parts ...string) uint64 {
	sum := fnv.New64a()
	for _, p := range parts {
		_, _ = sum.Write([]byte(p + "\x00")) // never fails
	}
	return sum.Sum64()
}

func encodePlace(p place) string {
	text, _ := json.Marshal(p) // it always can
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
