package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

const (
	// auditKeep is how long audit events are kept. The database refuses to delete them earlier.
	auditKeep = 90 * 24 * time.Hour
	// auditTrim is how many events that are older go with each batch that comes: more than come.
	auditTrim = 2000
)

// AuditEvent is one event of the audit trail.
type AuditEvent struct {
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

// AuditFilter chooses events: all that is set must hold.
type AuditFilter struct {
	// Actors are the subjects that may have done it.
	Actors  []string
	Cluster string
	// Action or what one begins with, up to a dot.
	Action string
	Since  time.Time
}

// AuditPlace is a place in the order of times, for pages.
type AuditPlace struct {
	Time time.Time
	Seq  int64
}

// AppendAudit adds events, but for those whose id is there. Once it returned nil they survive kill -9.
func (s *Store) AppendAudit(ctx context.Context, events []AuditEvent) error {
	return s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if s.dialect.lockAudit != "" {
			// Until the commit: numbers are then visible in their order, and who read up to one has all before it.
			if _, err := tx.ExecContext(ctx, s.dialect.lockAudit); err != nil {
				return fmt.Errorf("lock audit: %w", err)
			}
		}
		t := &Tx{View: View{tx, &s.dialect}, tx: tx, store: s}
		err := insert(ctx, t, "INSERT INTO audit (id, time, actor, cluster, action, event) VALUES ON CONFLICT (id) DO NOTHING", events, func(e AuditEvent) []any {
			return []any{e.ID, micros(e.Time), e.Actor, e.Cluster, e.Action, string(e.Event)}
		})
		if err != nil {
			return fmt.Errorf("insert audit events: %w", err)
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE time < $1 ORDER BY time LIMIT $2)",
			micros(s.clock().Add(-auditKeep)), auditTrim)
		if err != nil {
			return fmt.Errorf("trim audit: %w", err)
		}
		return nil
	})
}

// AuditEnd is the number of the last event; 0: there was none.
func (v View) AuditEnd(ctx context.Context) (seq int64, err error) {
	err = v.q.QueryRowContext(ctx, "SELECT COALESCE(MAX(seq), 0) FROM audit").Scan(&seq)
	return seq, err
}

// Audit returns up to limit events before a place (zero: all), the newest first.
func (v View) Audit(ctx context.Context, f AuditFilter, before AuditPlace, limit int) ([]AuditEvent, error) {
	where, args := f.where()
	if before != (AuditPlace{}) {
		args = append(args, micros(before.Time), before.Seq)
		where = append(where, fmt.Sprintf("(time, seq) < ($%d, $%d)", len(args)-1, len(args)))
	}
	return v.audit(ctx, where, args, "time DESC, seq DESC", limit)
}

// AuditAfter returns up to limit events behind a number, in the order of numbers.
func (v View) AuditAfter(ctx context.Context, f AuditFilter, seq int64, limit int) ([]AuditEvent, error) {
	where, args := f.where()
	args = append(args, seq)
	where = append([]string{fmt.Sprintf("seq > $%d", len(args))}, where...)
	return v.audit(ctx, where, args, "seq", limit)
}

func (f AuditFilter) where() (where []string, args []any) {
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
		// What begins with "a." is between "a." and "a/": no pattern that would need escapes.
		add("(action = ? OR action >= ? AND action < ?)", f.Action, f.Action+".", f.Action+"/")
	}
	if !f.Since.IsZero() {
		add("time >= ?", micros(f.Since))
	}
	return where, args
}

func (v View) audit(ctx context.Context, where []string, args []any, order string, limit int) ([]AuditEvent, error) {
	query := "SELECT seq, id, time, actor, cluster, action, event FROM audit"
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	query += fmt.Sprintf(" ORDER BY %s LIMIT %d", order, limit)
	rows, err := v.q.QueryContext(ctx, query, args...)
	return collect(rows, err, func(rows *sql.Rows) (AuditEvent, error) {
		var e AuditEvent
		var at int64
		err := rows.Scan(&e.Seq, &e.ID, &at, &e.Actor, &e.Cluster, &e.Action, &e.Event)
		e.Time = fromMicros(at)
		return e, err
	})
}
