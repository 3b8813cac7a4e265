package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// AlertState is what an alert has found.
type AlertState struct {
	Alert string // uid
	// Version grows with every change of State; 0: there is no row yet.
	Version int64
	// Looked is when the alert was evaluated last, and Unknown how many clusters gave no answer then.
	Looked  time.Time
	Unknown int
	// State is JSON.
	State []byte
}

// AlertChange is a change of a state that was made of the one with its Version.
type AlertChange struct {
	AlertState
	// Same says that State has not changed; Gone that the alert is gone, and its state with it.
	Same, Gone bool
	// Events are recorded if the change is kept.
	Events []Event
}

// AlertStates returns the states of all alerts, by uid.
func (v View) AlertStates(ctx context.Context) (map[string]AlertState, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT alert_uid, version, look_time, unknown_count, state FROM alerts")
	list, err := database.Collect(rows, err, func(rows *sql.Rows) (s AlertState, err error) {
		var looked int64
		err = rows.Scan(&s.Alert, &s.Version, &looked, &s.Unknown, &s.State)
		s.Looked = database.FromMicros(looked)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	out := make(map[string]AlertState, len(list))
	for _, s := range list {
		out[s.Alert] = s
	}
	return out, nil
}

// AlertsDue says whether there are alerts, or states of those that are gone, and the next round is due.
func (v View) AlertsDue(ctx context.Context) (due bool, err error) {
	err = v.db.QueryRowContext(ctx, "SELECT NOT EXISTS (SELECT 1 FROM alert_rounds WHERE next_time > "+v.db.Dialect.Now+")"+
		" AND (EXISTS (SELECT 1 FROM resources WHERE kind = $1) OR EXISTS (SELECT 1 FROM alerts))", KindAlert).Scan(&due)
	if err != nil {
		return false, fmt.Errorf("read alerts: %w", err)
	}
	return due, nil
}

// ClaimAlerts claims the next round over all alerts, unless another console has. The next one is due after every, by
// the database's clock.
func (s *Store) ClaimAlerts(ctx context.Context, every time.Duration) (mine bool, err error) {
	err = s.Transact(ctx, func(ctx context.Context, tx database.Tx) error {
		now := s.Dialect.Now
		res, err := tx.ExecContext(ctx, "INSERT INTO alert_rounds (id, next_time) VALUES (1, "+now+" + $1)"+ //nolint:gosec // one of two constants
			" ON CONFLICT (id) DO UPDATE SET next_time = excluded.next_time WHERE alert_rounds.next_time <= "+now, every.Microseconds())
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		mine = n == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("claim alerts: %w", err)
	}
	return mine, nil
}

// ChangeAlerts keeps changes with their events, but for those of states that changed since: kept says which.
func (s *Store) ChangeAlerts(ctx context.Context, changes []AlertChange) (kept []bool, err error) {
	var events []Event
	err = s.Transact(ctx, func(ctx context.Context, tx database.Tx) error {
		kept, events = make([]bool, len(changes)), nil
		for i, c := range changes {
			statement, args := c.statement()
			res, err := tx.ExecContext(ctx, statement, args...)
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return err
			}
			if kept[i] = n == 1; kept[i] {
				events = append(events, c.Events...)
			}
		}
		return s.insertEvents(ctx, tx, events)
	})
	if err != nil {
		return nil, fmt.Errorf("write alerts: %w", err)
	}
	s.tellEvents(events)
	return kept, nil
}

func (c AlertChange) statement() (string, []any) {
	switch {
	case c.Gone:
		return "DELETE FROM alerts WHERE alert_uid = $1 AND version = $2", []any{c.Alert, c.Version}
	case c.Version == 0:
		return "INSERT INTO alerts (alert_uid, version, look_time, unknown_count, state) VALUES ($1, 1, $2, $3, $4) ON CONFLICT (alert_uid) DO NOTHING",
			[]any{c.Alert, database.Micros(c.Looked), c.Unknown, string(c.State)}
	case c.Same:
		return "UPDATE alerts SET look_time = $3, unknown_count = $4 WHERE alert_uid = $1 AND version = $2",
			[]any{c.Alert, c.Version, database.Micros(c.Looked), c.Unknown}
	}
	return "UPDATE alerts SET version = version + 1, look_time = $3, unknown_count = $4, state = $5 WHERE alert_uid = $1 AND version = $2",
		[]any{c.Alert, c.Version, database.Micros(c.Looked), c.Unknown, string(c.State)}
}
