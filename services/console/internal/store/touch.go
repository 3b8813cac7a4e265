package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// Touched is what has another status.
type Touched struct {
	Services, Clusters, Sources []string // uids
	// Reports were written about other services, and nothing else was. They have a Value and no State.
	Reports []Report
	// Hubs were written about other services, and nothing else was.
	Hubs []Hub
	// Own are the touches of Reports and Hubs, and of the reports of Services, where consoles share the database:
	// View.Touched returns these, too.
	Own []Touch
}

// Hub is the truth of the hub about a service, as the caller of PutHub has it.
type Hub struct {
	Service string
	Value   any
}

// OnTouch has touched called after each commit of statuses by this console. touched must not block. Call it before Run
// of anything.
func (s *Store) OnTouch(touched func(Touched)) { s.touched = touched }

func (s *Store) tellTouched(t Touched) {
	if s.touched != nil && len(t.Services)+len(t.Clusters)+len(t.Sources)+len(t.Reports)+len(t.Hubs) > 0 {
		s.touched(t)
	}
}

// Touch is a status that was written.
type Touch struct {
	Table string
	UID   string
	Time  int64
}

const hubTable, reportTable = "hub", "reports"

// touchIn scans the touches of a table: a uid and a time.
func touchIn(table string) func(*sql.Rows) (Touch, error) {
	return func(rows *sql.Rows) (Touch, error) {
		t := Touch{Table: table}
		return t, rows.Scan(&t.UID, &t.Time)
	}
}

// Touched returns what was written within some time, by any console and by the database's clock. A write that is slow
// to commit comes with a time of up to the length of its transaction ago.
func (v View) Touched(ctx context.Context, within time.Duration) ([]Touch, error) {
	var out []Touch
	for _, of := range []struct{ table, uid string }{{hubTable, "service_uid"}, {"hub_refs", "source_uid"}, {reportTable, "service_uid"}, {"seen", "cluster_uid"}} {
		rows, err := v.db.QueryContext(ctx, "SELECT "+of.uid+", touch_time FROM "+of.table+" WHERE touch_time >= "+v.db.Dialect.Now+" - $1", within.Microseconds())
		list, err := database.Collect(rows, err, touchIn(of.table))
		if err != nil {
			return nil, fmt.Errorf("read touched %s: %w", of.table, err)
		}
		out = append(out, list...)
	}
	return out, nil
}

// Add notes a touch by where it is.
func (t *Touched) Add(touch Touch) {
	switch touch.Table {
	case "seen":
		t.Clusters = append(t.Clusters, touch.UID)
	case "hub_refs":
		t.Sources = append(t.Sources, touch.UID)
	default:
		t.Services = append(t.Services, touch.UID)
	}
}

// Written is the number of the last change that this console committed.
func (s *Store) Written() int64 { return s.written.Load() }
