package store

import (
	"context"
	"database/sql"
	"fmt"

	"fairlead.dev/services/console/internal/store/database"
)

// Said returns what folders have said last of how resources are synced, by uid; nothing for those of which they said
// nothing.
func (v View) Said(ctx context.Context, uids []string) (map[string]string, error) {
	return database.ByKey(ctx, v.db, "SELECT uid, said FROM declared WHERE uid IN ", uids, func(rows *sql.Rows) (uid, said string, err error) {
		err = rows.Scan(&uid, &said)
		return uid, said, err
	})
}

// Say keeps what a folder says of how a resource is synced; empty: nothing.
func (t *Tx) Say(ctx context.Context, uid, said string) error {
	query, args := "INSERT INTO declared (uid, said) VALUES ($1, $2) ON CONFLICT (uid) DO UPDATE SET said = excluded.said", []any{uid, said}
	if said == "" {
		query, args = "DELETE FROM declared WHERE uid = $1", args[:1]
	}
	if _, err := t.tx.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("write what a folder says: %w", err)
	}
	return nil
}

// RefsOf returns the resources that one names.
func (v View) RefsOf(ctx context.Context, uid string) ([]Ref, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT kind, name FROM refs WHERE uid = $1 ORDER BY kind, name", uid)
	return database.Collect(rows, err, func(rows *sql.Rows) (r Ref, err error) {
		err = rows.Scan(&r.Kind, &r.Name)
		return r, err
	})
}
