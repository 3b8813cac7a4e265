package catalog

import (
	"context"

	"fairlead.dev/services/console/internal/store"
)

// Rows returns all resources of a kind, seen by the caller or not: for what follows from all of them.
func (c *Catalog) Rows(ctx context.Context, kind store.Kind) (out []store.Resource, err error) {
	err = c.store.Read(ctx, func(ctx context.Context, v store.View) error {
		out, err = AllRows(ctx, v, kind)
		return err
	})
	return out, err
}

// AllRows is Rows within a transaction.
func AllRows(ctx context.Context, v store.View, kind store.Kind) (out []store.Resource, err error) {
	for after := ""; ; after = out[len(out)-1].Name {
		rows, err := v.List(ctx, kind, after, maxPageSize)
		if err != nil {
			return nil, err
		}
		if out = append(out, rows...); len(rows) < maxPageSize {
			return out, nil
		}
	}
}
