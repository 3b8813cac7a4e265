package store

import (
	"context"
	"database/sql"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/services/console/internal/store/database"
)

// A push must not read all services of its source to find those whose pin goes by itself.
func TestReleasingReadsItsIndex(t *testing.T) {
	readsIndex(t, "resources_releasing", releasing, KindSource, "shop")
}

// Each console looks every few seconds for levers whose time has come.
func TestEndingReadsItsIndex(t *testing.T) { readsIndex(t, "resources_ending", ending) }

// Each report of a service that is gone from its cluster looks for the event of that.
func TestTheLastEventOfAServiceReadsItsIndex(t *testing.T) {
	readsIndex(t, "events_service", "SELECT seq FROM events WHERE "+lastEvent(2), "web", "edge-1", "a", "b")
}

func readsIndex(t *testing.T, index, query string, args ...any) {
	t.Helper()
	t.Parallel()
	s, err := New("sqlite:"+filepath.Join(t.TempDir(), "console.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var steps []string
	err = s.Read(t.Context(), func(ctx context.Context, v View) error {
		rows, err := v.db.QueryContext(ctx, "EXPLAIN QUERY PLAN "+query, args...)
		steps, err = database.Collect(rows, err, func(rows *sql.Rows) (step string, err error) {
			var id, parent, unused int
			return step, rows.Scan(&id, &parent, &unused, &step)
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(steps, func(step string) bool { return strings.Contains(step, index) }) {
		t.Errorf("plan: %q", steps)
	}
}
