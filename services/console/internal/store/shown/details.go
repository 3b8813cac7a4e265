package shown

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// DetailKind is what a detail tells.
type DetailKind string

// The kinds.
const (
	DetailObjects DetailKind = "objects"
	DetailDiff    DetailKind = "diff"
	DetailNotes   DetailKind = "notes"
)

// Detail is a long list about a service.
type Detail struct {
	// Digest of the service that it is about.
	Digest string
	// Time of the observation.
	Time time.Time
	Data []byte
}

// Details returns what is kept of one kind, by service uid.
func (v View) Details(ctx context.Context, kind DetailKind, services []string) (map[string]Detail, error) {
	return database.ByKey(ctx, v.View, "SELECT service_uid, digest, time, data FROM service_details WHERE kind = '"+string(kind)+"' AND service_uid IN ", services,
		func(rows *sql.Rows) (uid string, d Detail, err error) {
			var us int64
			err = rows.Scan(&uid, &d.Digest, &us, &d.Data)
			d.Time = database.FromMicros(us)
			return uid, d, err
		})
}

// PutDetail keeps a detail in place of the one before. One of a service that is gone is passed over.
func (s Store) PutDetail(ctx context.Context, kind DetailKind, service string, d Detail) error {
	err := s.TransactLane(ctx, func(ctx context.Context, tx database.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO service_details (service_uid, kind, digest, time, data) SELECT $1, $2, $3, $4, $5 WHERE EXISTS (SELECT 1 FROM resources WHERE uid = $1)"+
			" ON CONFLICT (service_uid, kind) DO UPDATE SET digest = excluded.digest, time = excluded.time, data = excluded.data",
			service, string(kind), d.Digest, database.Micros(d.Time), d.Data)
		return err
	})
	if err != nil {
		return fmt.Errorf("write details: %w", err)
	}
	return nil
}
