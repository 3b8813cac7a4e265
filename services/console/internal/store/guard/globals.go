package guard

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// Deletions is how many services of a global service were deleted since, because their clusters left it.
func (v View) Deletions(ctx context.Context, global string, since time.Time) (n int, err error) {
	err = v.QueryRowContext(ctx, "SELECT COALESCE(SUM(deleted), 0) FROM global_deletions WHERE global_uid = $1 AND time > $2", global, database.Micros(since)).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count deletions: %w", err)
	}
	return n, nil
}

// CountDeletions adds to them, and forgets those of all global services that were before since.
func (t Tx) CountDeletions(ctx context.Context, global string, n int, since time.Time) error {
	if _, err := t.ExecContext(ctx, "DELETE FROM global_deletions WHERE time <= $1", database.Micros(since)); err != nil {
		return fmt.Errorf("trim deletions: %w", err)
	}
	if _, err := t.ExecContext(ctx, "INSERT INTO global_deletions (global_uid, time, deleted) VALUES ($1, $2, $3)"+
		" ON CONFLICT (global_uid, time) DO UPDATE SET deleted = global_deletions.deleted + excluded.deleted", global, database.Micros(t.Now), n); err != nil {
		return fmt.Errorf("count deletions: %w", err)
	}
	return nil
}

// HoldBack records that the guard holds services back, by their uids, from now on.
func (t Tx) HoldBack(ctx context.Context, services []string) error {
	err := database.Insert(ctx, t.Tx, "INSERT INTO held_back_services (service_uid, hold_time) VALUES ON CONFLICT (service_uid) DO UPDATE SET hold_time = excluded.hold_time", services,
		func(uid string) []any { return []any{uid, database.Micros(t.Now)} })
	if err != nil {
		return fmt.Errorf("hold services back: %w", err)
	}
	return nil
}

// HeldBackSince is when the guard began to hold back the first of services, by their uids, as far as that is recorded;
// zero: of none.
func (v View) HeldBackSince(ctx context.Context, services []string) (since time.Time, err error) {
	for chunk := range slices.Chunk(services, database.ChunkSize) {
		in, args := v.Dialect.List(chunk)
		var first sql.NullInt64
		if err := v.QueryRowContext(ctx, "SELECT MIN(hold_time) FROM held_back_services WHERE service_uid IN "+in, args...).Scan(&first); err != nil {
			return time.Time{}, fmt.Errorf("read since when services are held back: %w", err)
		}
		if at := database.FromMicros(first.Int64); first.Valid && (since.IsZero() || at.Before(since)) {
			since = at
		}
	}
	return since, nil
}
