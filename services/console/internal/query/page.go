package query

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"hash/fnv"
	"slices"
)

// The errors of tokens.
var (
	ErrNoToken    = errors.New("is not one that a list returned")
	ErrOtherToken = errors.New("is of a list with another filter or order: begin anew")
)

// Place is where a row stands in an order: by the values that the order depends on, then by its name.
type Place struct {
	Values []Value `json:",omitempty"`
	Name   string
}

// Compare says which of two places comes first.
func (o Order) Compare(a, b Place) int {
	return cmp.Or(o.compareValues(a.Values, b.Values), cmp.Compare(a.Name, b.Name))
}

// Page is the beginning of what stands behind a place.
type Page[R any] struct {
	Rows []R
	// Last is where the last row stands, if there are more; nil: there are none.
	Last *Place
}

// Named is a row with a name of its own.
type Named interface {
	Row
	Name() string
}

// PageOf returns up to n rows behind a place, nil: from the beginning, in their order. Most rows stand behind the last
// of what was found so far, and are passed over.
func PageOf[R Named](rows []R, order Order, after *Place, n int) (page Page[R]) {
	type placed struct {
		row R
		at  Place
	}
	inOrder := func(x, y placed) int { return order.Compare(x.at, y.at) }
	var found []placed
	var end *Place // rows behind it do not count
	var values []Value
	for _, r := range rows {
		values = order.Values(values[:0], r)
		at := Place{values, r.Name()}
		if after != nil && order.Compare(at, *after) <= 0 || end != nil && order.Compare(at, *end) > 0 {
			continue
		}
		at.Values = slices.Clone(values)
		found = append(found, placed{r, at})
		if len(found) == 2*(n+1) {
			slices.SortFunc(found, inOrder)
			found = found[:n+1]
			last := found[n].at
			end = &last
		}
	}
	slices.SortFunc(found, inOrder)
	if len(found) > n {
		found = found[:n]
		page.Last = &found[n-1].at
	}
	page.Rows = make([]R, len(found))
	for i, f := range found {
		page.Rows[i] = f.row
	}
	return page
}

// pageToken is what a caller gives back for the next page.
type pageToken struct {
	Of uint64 // the question that it belongs to
	Place
}

// Token of what stands behind a place; empty: the place is nil, nothing stands behind it. of is the Question.
func (p *Place) Token(of uint64) string {
	if p == nil {
		return ""
	}
	text, _ := json.Marshal(pageToken{of, *p}) // a place can always be encoded
	return base64.RawURLEncoding.EncodeToString(text)
}

// PlaceOf reads a token of the question; nil: the token is empty, a list begins. Places of the question have so many
// values.
func PlaceOf(text string, of uint64, values int) (*Place, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // the beginning
	}
	var t pageToken
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	switch {
	case err != nil || json.Unmarshal(decoded, &t) != nil:
		return nil, ErrNoToken
	case t.Of != of || len(t.Values) != values:
		return nil, ErrOtherToken
	}
	return &t.Place, nil
}

// Question is what a token belongs to, made of all that decides which rows come in which order.
func Question(parts ...string) uint64 {
	sum := fnv.New64a()
	for _, p := range parts {
		_, _ = sum.Write([]byte(p + "\x00")) // never fails
	}
	return sum.Sum64()
}
