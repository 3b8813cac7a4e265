package catalog

import (
	"context"

	"fairlead.dev/services/console/internal/store"
)

// Finder knows all resources, for what the database can't be asked.
type Finder interface {
	// Find returns the names on a page, in its order, and the token of the next one. Earlier writes of this console
	// count.
	Find(ctx context.Context, kind store.Kind, page Page) (names []string, next string, err error)
}

// found is a page in which not all resources are, or not in the order of names.
func found[T any](ctx context.Context, c *Catalog, kind store.Kind, page Page, load Load[T]) (out []T, next string, err error) {
	names, next, err := c.finder.Find(ctx, kind, page)
	if err != nil {
		return nil, "", err
	}
	sees, err := c.guard.Sees(ctx)
	if err != nil {
		return nil, "", err
	}
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		byName, err := v.Named(ctx, kind, names)
		if err != nil {
			return err
		}
		rows := make([]store.Resource, 0, len(names))
		for _, name := range names {
			if r, ok := byName[name]; ok && (sees == nil || sees(r)) { // else it went meanwhile, or moved where the caller sees nothing
				rows = append(rows, r)
			}
		}
		out, err = load(ctx, v, rows)
		return err
	})
	return out, next, err
}
