package store

import (
	"context"
	"database/sql"
	"fmt"

	"fairlead.dev/services/console/internal/store/database"
)

// Sealed is something sealed, and what it is of.
type Sealed struct {
	// Table is resources, configs, places, config_key or signing_keys.
	Table string
	// UID of the resource, or of the service that a configuration is for; of a place, uid of the backend/path.
	UID string
	// Kind and Name of a resource.
	Kind  Kind
	Name  string
	Value []byte
}

// renewRows is how many rows are looked at, and written, at once: others write in between.
const renewRows = 200

// RenewSealed gives renew each sealed value and keeps what renew returns; nil: the value can stay. A value that is
// changed meanwhile stays as it was changed. Followers are told nothing, for nothing has changed.
//
// A write may carry a sealed value over from what it has read. Renewed values are written under the catalog's lock, so
// that such a write ends before, and its value is renewed, or begins after, and reads the renewed one.
func (s *Store) RenewSealed(ctx context.Context, renew func(Sealed) ([]byte, error)) error {
	for _, of := range []sealedTable{
		{"resources", "uid", "uid, kind, name"},
		{"configs", "service_uid", "service_uid, '', ''"},
		{"places", "(backend_uid || '/' || path)", "backend_uid || '/' || path, '', ''"},
		{"config_key", "id", "CAST(id AS TEXT), '', ''"},
		{"signing_keys", "id", "CAST(id AS TEXT), '', ''"},
	} {
		if err := s.renewTable(ctx, of, renew); err != nil {
			return fmt.Errorf("renew what is sealed in %s: %w", of.name, err)
		}
	}
	return nil
}

// sealedTable is a table with a column of sealed values: its key, and the columns of a Sealed.
type sealedTable struct{ name, key, columns string }

// renewed is a sealed value and the one that takes its place.
type renewed struct {
	Sealed
	next []byte
}

func (s *Store) renewTable(ctx context.Context, of sealedTable, renew func(Sealed) ([]byte, error)) error {
	for after, more := "", true; more; {
		var list []Sealed
		err := s.Read(ctx, func(ctx context.Context, v View) (err error) {
			list, err = v.sealed(ctx, of, after)
			return err
		})
		if err != nil {
			return err
		}
		more = len(list) == renewRows
		var changed []renewed
		for _, v := range list {
			after = v.UID
			next, err := renew(v)
			if err != nil {
				return err
			}
			if next != nil {
				changed = append(changed, renewed{v, next})
			}
		}
		if err := s.putRenewed(ctx, of, changed); err != nil {
			return err
		}
	}
	return nil
}

// sealed returns the values whose keys come after one.
func (v View) sealed(ctx context.Context, of sealedTable, after string) ([]Sealed, error) {
	key := "CAST(" + of.key + " AS TEXT)"
	rows, err := v.db.QueryContext(ctx, "SELECT "+of.columns+", sealed FROM "+of.name+" WHERE LENGTH(sealed) > 0 AND "+
		key+" > $1 ORDER BY "+key+" LIMIT $2", after, renewRows)
	return database.Collect(rows, err, func(rows *sql.Rows) (Sealed, error) {
		s := Sealed{Table: of.name}
		return s, rows.Scan(&s.UID, &s.Kind, &s.Name, &s.Value)
	})
}

// putRenewed writes renewed values under the catalog's lock, where they are still what they were.
func (s *Store) putRenewed(ctx context.Context, of sealedTable, list []renewed) error {
	if len(list) == 0 {
		return nil
	}
	return s.Transact(ctx, func(ctx context.Context, tx database.Tx) error {
		var seq int64
		if err := tx.QueryRowContext(ctx, s.Dialect.LockLog).Scan(&seq); err != nil {
			return fmt.Errorf("lock catalog: %w", err)
		}
		for _, r := range list {
			if _, err := tx.ExecContext(ctx, "UPDATE "+of.name+" SET sealed = $1 WHERE CAST("+of.key+" AS TEXT) = $2 AND sealed = $3", r.next, r.UID, r.Value); err != nil { //nolint:gosec // all of them are constants
				return err
			}
		}
		return nil
	})
}
