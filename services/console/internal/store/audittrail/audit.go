// Package audittrail keeps the audit trail. The views and the store of package store have it.
package audittrail

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// View reads at one moment.
type View struct{ database.View }

// Store writes by itself.
type Store struct {
	*database.DB
	most    int64
	trimmed func(now time.Time, dropped int64) Event
}

// New keeps about as many bytes as most; 0: no bound. trimmed makes the event which says that so many of the oldest went
// therefore; nil: there is none.
func New(db *database.DB, most int64, trimmed func(now time.Time, dropped int64) Event) Store {
	return Store{db, most, trimmed}
}

const (
	// auditKeep is how long audit events are kept where there is room.
	auditKeep = 90 * 24 * time.Hour
	// auditLeast is how long they are kept anyhow. The database refuses to delete them earlier.
	auditLeast = 7 * 24 * time.Hour
	// auditTrim is how many events that are older go with each batch that comes: more than come.
	auditTrim = 2000
	// auditTrims is how many times as many go when there are too many.
	auditTrims = 10
	// auditSize is about what an event takes with its indexes, in bytes.
	auditSize = "LENGTH(event) + 256"
	// Recount makes the volume that of the events that are there.
	Recount = "UPDATE audit_volume SET bytes = (SELECT COALESCE(SUM(" + auditSize + "), 0) FROM audit)"
)

// Event is one event of the audit trail.
type Event struct {
	// Seq is the order in which events became visible. Filled in by the store.
	Seq  int64
	ID   string
	Time time.Time
	// Actor is kind:name.
	Actor   string
	Cluster string
	Action  string
	// Event is all of it, in JSON.
	Event []byte
}

// Filter chooses events: all that is set must hold.
type Filter struct {
	// Actors are the subjects that may have done it.
	Actors  []string
	Cluster string
	// Action or what one begins with, up to a dot.
	Action string
	Since  time.Time
}

// Place is a place in the order of times, for pages.
type Place struct {
	Time time.Time
	Seq  int64
}

// AppendAudit adds events, but for those whose id is there. Once it returned nil they survive kill -9.
func (s Store) AppendAudit(ctx context.Context, events []Event) error {
	return s.Transact(ctx, func(ctx context.Context, tx database.Tx) error {
		if err := Insert(ctx, tx, events); err != nil {
			return err
		}
		return s.trim(ctx, tx)
	})
}

// Insert adds events, but for those whose id is there.
func Insert(ctx context.Context, tx database.Tx, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	// Until the commit: numbers are then visible in their order, and who read up to one has all before it.
	if err := tx.Lock(ctx, tx.Dialect.LockAudit); err != nil {
		return err
	}
	end, err := View{tx.View()}.AuditEnd(ctx)
	if err != nil {
		return fmt.Errorf("read audit: %w", err)
	}
	err = database.Insert(ctx, tx, "INSERT INTO audit (id, time, actor, cluster, action, event) VALUES ON CONFLICT (id) DO NOTHING", events, func(e Event) []any {
		return []any{tx.Dialect.Short(e.ID), database.Micros(e.Time), e.Actor, e.Cluster, e.Action, tx.Dialect.Text(e.Event)}
	})
	if err != nil {
		return fmt.Errorf("insert audit events: %w", err)
	}
	_, err = tx.ExecContext(ctx, "UPDATE audit_volume SET bytes = bytes + (SELECT COALESCE(SUM("+auditSize+"), 0) FROM audit WHERE seq > $1)", end)
	if err != nil {
		return fmt.Errorf("count audit events: %w", err)
	}
	return nil
}

// trim removes what is too old, and the oldest if there is too much.
func (s Store) trim(ctx context.Context, tx database.Tx) error {
	if _, err := drop(ctx, tx, tx.Now.Add(-auditKeep), auditTrim); err != nil {
		return err
	}
	if s.most <= 0 {
		return nil
	}
	v := View{tx.View()}
	volume, err := v.AuditVolume(ctx)
	if err != nil || volume <= s.most {
		return err
	}
	// Somewhat more than is needed, so that not each batch does it, nor leaves an event about it.
	var dropped int64
	for range auditTrims {
		n, err := drop(ctx, tx, tx.Now.Add(-auditLeast), auditTrim)
		if err != nil {
			return err
		}
		dropped += n
		if volume, err = v.AuditVolume(ctx); err != nil {
			return err
		}
		if n < auditTrim || volume <= s.most-s.most/50 {
			break
		}
	}
	if dropped == 0 || s.trimmed == nil {
		return nil
	}
	return Insert(ctx, tx, []Event{s.trimmed(tx.Now, dropped)})
}

// drop removes events that are older than a moment, the oldest first.
func drop(ctx context.Context, tx database.Tx, before time.Time, most int) (dropped int64, err error) {
	rows, err := tx.QueryContext(ctx, "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE time < $1 ORDER BY time, seq LIMIT $2) RETURNING "+auditSize, database.Micros(before), most)
	sizes, err := database.Collect(rows, err, func(rows *sql.Rows) (n int64, err error) {
		err = rows.Scan(&n)
		return n, err
	})
	if err != nil {
		return 0, fmt.Errorf("trim audit: %w", err)
	}
	if len(sizes) == 0 {
		return 0, nil
	}
	var bytes int64
	for _, n := range sizes {
		bytes += n
	}
	if _, err := tx.ExecContext(ctx, "UPDATE audit_volume SET bytes = bytes - $1", bytes); err != nil {
		return 0, fmt.Errorf("trim audit: %w", err)
	}
	return int64(len(sizes)), nil
}

// AuditVolume is about how many bytes the trail takes in the database.
func (v View) AuditVolume(ctx context.Context) (bytes int64, err error) {
	err = v.QueryRowContext(ctx, "SELECT bytes FROM audit_volume").Scan(&bytes)
	return bytes, err
}

// AuditEnd is the number of the last event; 0: there was none.
func (v View) AuditEnd(ctx context.Context) (seq int64, err error) {
	err = v.QueryRowContext(ctx, "SELECT COALESCE(MAX(seq), 0) FROM audit").Scan(&seq)
	return seq, err
}

// Audit returns up to limit events before a place (zero: all), the newest first.
func (v View) Audit(ctx context.Context, f Filter, before Place, limit int) ([]Event, error) {
	where, args := f.where()
	if before != (Place{}) {
		args = append(args, database.Micros(before.Time), before.Seq)
		where = append(where, fmt.Sprintf("(time, seq) < ($%d, $%d)", len(args)-1, len(args)))
	}
	return v.audit(ctx, where, args, "time DESC, seq DESC", limit)
}

// AuditAfter returns up to limit events behind a number, in the order of numbers.
func (v View) AuditAfter(ctx context.Context, f Filter, seq int64, limit int) ([]Event, error) {
	where, args := f.where()
	args = append(args, seq)
	where = append([]string{fmt.Sprintf("seq > $%d", len(args))}, where...)
	return v.audit(ctx, where, args, "seq", limit)
}

func (f Filter) where() (where []string, args []any) {
	add := func(clause string, values ...any) {
		for _, value := range values {
			args = append(args, value)
			clause = strings.Replace(clause, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		where = append(where, clause)
	}
	if len(f.Actors) > 0 {
		marks := strings.TrimSuffix(strings.Repeat("?, ", len(f.Actors)), ", ")
		values := make([]any, len(f.Actors))
		for i, a := range f.Actors {
			values[i] = a
		}
		add("actor IN ("+marks+")", values...)
	}
	if f.Cluster != "" {
		add("cluster = ?", f.Cluster)
	}
	if f.Action != "" {
		// An action that begins with "a." is between "a." and "a/": no pattern that would need escapes.
		add("(action = ? OR action >= ? AND action < ?)", f.Action, f.Action+".", f.Action+"/")
	}
	if !f.Since.IsZero() {
		add("time >= ?", database.Micros(f.Since))
	}
	return where, args
}

func (v View) audit(ctx context.Context, where []string, args []any, order string, limit int) ([]Event, error) {
	query := "SELECT seq, id, time, actor, cluster, action, event FROM audit"
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	query += fmt.Sprintf(" ORDER BY %s LIMIT %d", order, limit)
	rows, err := v.QueryContext(ctx, query, args...)
	return database.Collect(rows, err, func(rows *sql.Rows) (Event, error) {
		var e Event
		var at int64
		err := rows.Scan(&e.Seq, database.UnpackInto(&e.ID), &at, &e.Actor, &e.Cluster, &e.Action, database.UnpackInto(&e.Event))
		e.Time = database.FromMicros(at)
		return e, err
	})
}
