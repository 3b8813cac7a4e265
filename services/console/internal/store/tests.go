package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// KeptTestRuns is how many runs of one service's tests are kept.
const KeptTestRuns = 20

// TestRun is one run of a service's tests, as its agent told it last.
type TestRun struct {
	Service string // uid
	ID      string
	// Digest is the content's that was applied when the run began.
	Digest     string
	Start, End time.Time // End is zero while it runs
	// Time of the observation.
	Time time.Time
	// Summary is JSON, for the deployment; it is not read back.
	Summary []byte
	Data    []byte
}

// TestRuns returns up to limit of the kept runs of a service, the newest first. An id that is not empty chooses one.
func (v View) TestRuns(ctx context.Context, service, id string, limit int) ([]TestRun, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT id, start_time, end_time, time, data FROM test_runs WHERE service_uid = $1 AND (CAST($2 AS TEXT) = '' OR id = CAST($2 AS TEXT))"+
		" ORDER BY start_time DESC, id DESC LIMIT $3", service, id, limit)
	return database.Collect(rows, err, func(rows *sql.Rows) (TestRun, error) {
		r := TestRun{Service: service}
		var start, end, at int64
		err := rows.Scan(&r.ID, &start, &end, &at, &r.Data)
		r.Start, r.End, r.Time = database.FromMicros(start), database.FromMicros(end), database.FromMicros(at)
		return r, err
	})
}

// PutTestRun keeps what is told of a run, unless what is kept of it is newer, or its end; its summary goes to the
// newest deployment of the digest. A run of a service that is gone is passed over.
func (s *Store) PutTestRun(ctx context.Context, r TestRun, events ...Event) error {
	return s.status(ctx, &Touched{}, events, func(ctx context.Context, tx database.Tx) (map[ReportKey]bool, error) {
		return nil, s.putTestRun(ctx, tx, r)
	})
}

func (s *Store) putTestRun(ctx context.Context, tx database.Tx, r TestRun) error {
	result, err := tx.ExecContext(ctx, "INSERT INTO test_runs (service_uid, id, start_time, end_time, time, data)"+
		" SELECT $1, CAST($2 AS TEXT), CAST($3 AS BIGINT), CAST($4 AS BIGINT), CAST($5 AS BIGINT), $6 WHERE EXISTS (SELECT 1 FROM resources WHERE uid = $1)"+
		" ON CONFLICT (service_uid, id) DO UPDATE SET start_time = excluded.start_time, end_time = excluded.end_time, time = excluded.time, data = excluded.data"+
		" WHERE test_runs.end_time = 0 AND excluded.end_time <> 0 OR excluded.time >= test_runs.time AND (test_runs.end_time = 0 OR excluded.end_time <> 0)",
		r.Service, r.ID, database.Micros(r.Start), database.Micros(r.End), database.Micros(r.Time), r.Data)
	if err != nil {
		return fmt.Errorf("write test run: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM test_runs WHERE service_uid = $1 AND id NOT IN"+
		" (SELECT id FROM test_runs WHERE service_uid = $1 ORDER BY start_time DESC, id DESC LIMIT $2)", r.Service, KeptTestRuns); err != nil {
		return fmt.Errorf("trim test runs: %w", err)
	}
	_, err = tx.ExecContext(ctx, "UPDATE deployments SET tests = CAST($3 AS TEXT), tests_time = CAST($4 AS BIGINT) WHERE service_uid = $1 AND tests_time <= CAST($4 AS BIGINT)"+
		" AND number = (SELECT MAX(number) FROM deployments WHERE service_uid = $1 AND (content_digest = $2 OR content_digest = '' AND digest = $2))",
		r.Service, s.Dialect.Short(r.Digest), string(r.Summary), database.Micros(r.Start))
	if err != nil {
		return fmt.Errorf("write tests of deployment: %w", err)
	}
	return nil
}
