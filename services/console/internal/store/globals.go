package store

import (
	"context"
	"fmt"
	"time"
)

// Deletions is how many services of a global service were deleted since, because their clusters left it.
func (v View) Deletions(ctx context.Context, global string, since time.Time) (n int, err error) {
	err = v.q.QueryRowContext(ctx, "SELECT COALESCE(SUM(deleted), 0) FROM global_deletions WHERE global_uid = $1 AND time > $2", global, Micros(since)).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count deletions: %w", err)
	}
	return n, nil
}

// CountDeletions adds to them, and forgets those of all global services that were before since.
func (t *Tx) CountDeletions(ctx context.Context, global string, n int, since time.Time) error {
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM global_deletions WHERE time <= $1", Micros(since)); err != nil {
		return fmt.Errorf("trim deletions: %w", err)
	}
	if _, err := t.tx.ExecContext(ctx, "INSERT INTO global_deletions (global_uid, time, deleted) VALUES ($1, $2, $3)"+
		" ON CONFLICT (global_uid, time) DO UPDATE SET deleted = global_deletions.deleted + excluded.deleted", global, Micros(t.now), n); err != nil {
		return fmt.Errorf("count deletions: %w", err)
	}
	return nil
}
