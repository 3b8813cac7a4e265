package store

import (
	"context"
	"database/sql"
	"fmt"
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

// renewRows is how many rows are looked at in one transaction: others write in between.
const renewRows = 200

// RenewSealed has everything that is sealed sealed anew: renew returns nil for what can stay. A value that is changed meanwhile stays
// as it was changed. Followers are told nothing, for nothing has changed.
func (s *Store) RenewSealed(ctx context.Context, renew func(Sealed) ([]byte, error)) error {
	for _, of := range []struct{ table, key, columns string }{
		{"resources", "uid", "uid, kind, name"},
		{"configs", "service_uid", "service_uid, '', ''"},
		{"places", "(backend_uid || '/' || path)", "backend_uid || '/' || path, '', ''"},
		{"config_key", "id", "CAST(id AS TEXT), '', ''"},
		{"signing_keys", "id", "CAST(id AS TEXT), '', ''"},
	} {
		for after, more := "", true; more; {
			err := s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
				key := "CAST(" + of.key + " AS TEXT)"
				rows, err := tx.QueryContext(ctx, "SELECT "+of.columns+", sealed FROM "+of.table+" WHERE LENGTH(sealed) > 0 AND "+key+" > $1 ORDER BY "+key+" LIMIT $2", after, renewRows) //nolint:gosec // all of them are constants
				list, err := collect(rows, err, func(rows *sql.Rows) (Sealed, error) {
					v := Sealed{Table: of.table}
					return v, rows.Scan(&v.UID, &v.Kind, &v.Name, &v.Value)
				})
				if err != nil {
					return err
				}
				more = len(list) == renewRows
				for _, v := range list {
					after = v.UID
					next, err := renew(v)
					if err != nil || next == nil {
						if err != nil {
							return err
						}
						continue
					}
					if _, err := tx.ExecContext(ctx, "UPDATE "+of.table+" SET sealed = $1 WHERE "+key+" = $2 AND sealed = $3", next, v.UID, v.Value); err != nil { //nolint:gosec // as above
						return err
					}
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("renew what is sealed in %s: %w", of.table, err)
			}
		}
	}
	return nil
}
