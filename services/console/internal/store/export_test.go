package store

import "context"

// RestoreHalf is a restore that is killed when its rows are committed.
func (s *Store) RestoreHalf(ctx context.Context, r Restore) error {
	in, err := openBackup(r.From)
	if err != nil {
		return err
	}
	return s.load(ctx, in, r)
}
