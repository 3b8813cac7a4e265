package backup

import (
	"context"

	"fairlead.dev/services/console/internal/store"
)

// RestoreHalf is a restore that is killed when its rows are committed.
func RestoreHalf(ctx context.Context, s *store.Store, opts Options) error {
	in, err := openFile(opts.From)
	if err != nil {
		return err
	}
	return load(ctx, s, in, opts)
}
