package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"fairlead.dev/services/console/internal/store/database"
	"fairlead.dev/services/console/internal/store/shown"
)

// sweepRows is how many rows are looked at in one transaction: others write in between.
const sweepRows = 2000

// Sweep removes statuses of resources that went while the status was on its way. With a large catalog on a cold disk
// that takes a while, which nobody has to wait for. Deployments that ForgetDeleted removes later stay.
func (s *Store) Sweep(ctx context.Context) error {
	for _, of := range []struct{ table, uid string }{
		{"hub", "service_uid"},
		{"hub_refs", "source_uid"},
		{"reports", "service_uid"},
		{"reports", "cluster_uid"},
		{"seen", "cluster_uid"},
		{"views", "cluster_uid"},
		{shown.CurveTable, "cluster_uid"},
		{"service_details", "service_uid"},
		{"deployments", "service_uid"},
		{"test_runs", "service_uid"},
		{"held_back_services", "service_uid"},
		{"commit_statuses", "sink_uid"},
	} {
		for after, more := "", true; more; {
			var err error
			if after, more, err = s.sweepPart(ctx, of.table, of.uid, after); err != nil {
				return fmt.Errorf("sweep %s: %w", of.table, err)
			}
		}
	}
	return nil
}

// sweepPart goes on after a uid, and says up to which it came and whether there is more.
func (s *Store) sweepPart(ctx context.Context, table, uid, after string) (last string, more bool, err error) {
	err = s.Transact(ctx, func(ctx context.Context, tx database.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT "+uid+" FROM "+table+" WHERE "+uid+" > $1 ORDER BY "+uid+" LIMIT 1 OFFSET $2", after, sweepRows).Scan(&last)
		if more = err == nil; !more && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		part, args := uid+" > $1", []any{after}
		if more {
			part, args = part+" AND "+uid+" <= $2", append(args, last)
		}
		if table == "deployments" {
			part += " AND NOT EXISTS (SELECT 1 FROM deleted_services WHERE deleted_services.uid = deployments.service_uid)"
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE "+part+" AND NOT EXISTS (SELECT 1 FROM resources WHERE resources.uid = "+table+"."+uid+")", args...) //nolint:gosec // all of them are constants
		return err
	})
	return last, more, err
}
