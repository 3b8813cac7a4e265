// Package places keeps what the hub reads in backends: at which paths, what was there, and how reading goes. The views
// and writes of package store have these.
package places

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// View reads at one moment.
type View struct{ database.View }

// Tx is a write to the catalog.
type Tx struct{ database.Tx }

// Place is what a backend has at a path, as it was read last.
type Place struct {
	Backend string // uid
	Path    string
	// Sealed is nil if nothing was there.
	Sealed []byte
	// Problem is why it can't be read now; empty: it could.
	Problem string
	// ReadTime is when this was read first; zero: it never was.
	ReadTime time.Time
}

// Places returns what is kept of a backend at these paths, by path.
func (v View) Places(ctx context.Context, backend string, paths []string) (map[string]Place, error) {
	out := make(map[string]Place, len(paths))
	for chunk := range slices.Chunk(paths, database.ChunkSize) {
		rows, err := v.QueryContext(ctx, placesQuery+" AND path IN "+v.Dialect.Placeholders(2, len(chunk)), database.Anys(chunk, any(backend))...)
		list, err := database.Collect(rows, err, scanPlace)
		if err != nil {
			return nil, fmt.Errorf("read places: %w", err)
		}
		for _, p := range list {
			out[p.Path] = p
		}
	}
	return out, nil
}

// AllPlaces returns all that is kept of a backend.
func (v View) AllPlaces(ctx context.Context, backend string) ([]Place, error) {
	rows, err := v.QueryContext(ctx, placesQuery+" ORDER BY path", backend)
	return database.Collect(rows, err, scanPlace)
}

const placesQuery = "SELECT backend_uid, path, sealed, problem, read_time FROM places WHERE backend_uid = $1"

func scanPlace(rows *sql.Rows) (p Place, err error) {
	var us int64
	err = rows.Scan(&p.Backend, &p.Path, &p.Sealed, &p.Problem, &us)
	p.ReadTime = database.FromMicros(us)
	return p, err
}

// PutPlaces keeps what was read.
func (t Tx) PutPlaces(ctx context.Context, list []Place) error {
	err := database.Insert(ctx, t.Tx, "INSERT INTO places (backend_uid, path, sealed, problem, read_time) VALUES "+
		" ON CONFLICT (backend_uid, path) DO UPDATE SET sealed = excluded.sealed, problem = excluded.problem, read_time = excluded.read_time",
		list, func(p Place) []any { return []any{p.Backend, p.Path, p.Sealed, p.Problem, database.Micros(p.ReadTime)} })
	if err != nil {
		return fmt.Errorf("write places: %w", err)
	}
	return nil
}

// ForgetPlaces drops places that nothing is taken of any more.
func (t Tx) ForgetPlaces(ctx context.Context, backend string, paths []string) error {
	for chunk := range slices.Chunk(paths, database.ChunkSize) {
		_, err := t.ExecContext(ctx, "DELETE FROM places WHERE path IN "+t.Dialect.Placeholders(1, len(chunk))+" AND backend_uid = "+t.Dialect.Placeholders(1+len(chunk), 1),
			append(database.Anys(chunk), backend)...)
		if err != nil {
			return fmt.Errorf("delete places: %w", err)
		}
	}
	return nil
}

// Reading is when a backend is read, and how that went.
type Reading struct {
	Backend string // uid
	Next    time.Time
	// Reader is who reads, or read last.
	Reader string
	// ReadTime is when something was read last; zero: never.
	ReadTime time.Time
	// Problem is why it can't be read now; empty: it can.
	Problem     string
	ProblemTime time.Time
}

// Readings returns what is known of backends, by uid.
func (v View) Readings(ctx context.Context, backends []string) (map[string]Reading, error) {
	return database.ByKey(ctx, v.View, "SELECT backend_uid, next_time, reader, read_time, problem, problem_time FROM readings WHERE backend_uid IN ", backends,
		func(rows *sql.Rows) (string, Reading, error) {
			r, err := scanReading(rows)
			return r.Backend, r, err
		})
}

// DueReadings returns the backends that are to be read by now.
func (v View) DueReadings(ctx context.Context, now time.Time) ([]Reading, error) {
	rows, err := v.QueryContext(ctx, "SELECT backend_uid, next_time, reader, read_time, problem, problem_time FROM readings WHERE next_time <= $1 ORDER BY next_time", database.Micros(now))
	return database.Collect(rows, err, scanReading)
}

func scanReading(rows *sql.Rows) (r Reading, err error) {
	var next, read, problem int64
	err = rows.Scan(&r.Backend, &next, &r.Reader, &read, &r.Problem, &problem)
	r.Next, r.ReadTime, r.ProblemTime = database.FromMicros(next), database.FromMicros(read), database.FromMicros(problem)
	return r, err
}

// PutReading keeps how reading goes.
func (t Tx) PutReading(ctx context.Context, r Reading) error {
	_, err := t.ExecContext(ctx, "INSERT INTO readings (backend_uid, next_time, reader, read_time, problem, problem_time) VALUES ($1, $2, $3, $4, $5, $6)"+
		" ON CONFLICT (backend_uid) DO UPDATE SET next_time = excluded.next_time, reader = excluded.reader, read_time = excluded.read_time,"+
		" problem = excluded.problem, problem_time = excluded.problem_time",
		r.Backend, database.Micros(r.Next), r.Reader, database.Micros(r.ReadTime), r.Problem, database.Micros(r.ProblemTime))
	if err != nil {
		return fmt.Errorf("write reading: %w", err)
	}
	return nil
}
