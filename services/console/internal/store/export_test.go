package store

import (
	"context"
	"database/sql"
)

// Pools are the connections of a store.
func (s *Store) Pools() (write, read *sql.DB) { return s.write, s.read }

// RestoreHalf is a restore that is killed when its rows are committed.
func (s *Store) RestoreHalf(ctx context.Context, r Restore) error {
	in, err := openBackup(r.From)
	if err == nil {
		err = s.prepare(ctx, in.head)
	}
	if err != nil {
		return err
	}
	return s.load(ctx, in, r)
}

// Transact runs fn in a transaction on the writer.
func (s *Store) Transact(ctx context.Context, fn func(context.Context, *sql.Tx) error) error {
	return s.transact(ctx, fn)
}
