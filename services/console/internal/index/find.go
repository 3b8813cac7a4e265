package index

import (
	"context"

	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/store"
)

// Find implements catalog.Finder.
func (b *Index) Find(ctx context.Context, kind store.Kind, page catalog.Page) (names []string, next string, err error) {
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
	for _, r := range s.page.found.Rows {
		names = append(names, r.name)
	}
	return names, s.nextToken(), nil
}

// fitting returns the rows that fit, and the board and the step that they are of.
func (b *Index) fitting(kind store.Kind, expr *query.Expr) (out []*row, nonce string, at int64) {
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
