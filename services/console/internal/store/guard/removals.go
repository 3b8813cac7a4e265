// Package guard keeps what waits for a person: removals that would be large, and services of global services that are
// held back. The views and writes of package store have these.
package guard

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// View reads at one moment.
type View struct{ database.View }

// Tx is a write to the catalog.
type Tx struct{ database.Tx }

// Removals says whether services that the catalog does not have may be removed from clusters.
type Removals struct {
	// HoldTime is since when they may not; zero: they may.
	HoldTime time.Time
	// Reason is why they may not.
	Reason string
	// Confirmation is another one after each confirmation.
	Confirmation string
}

// Held is what would have been removed from a cluster.
type Held struct {
	Cluster  string // name
	Services []string
	Time     time.Time
}

// Removals returns whether removals wait for a person.
func (v View) Removals(ctx context.Context) (r Removals, err error) {
	var since int64
	err = v.QueryRowContext(ctx, "SELECT hold_time, reason, confirmation FROM removals").Scan(&since, &r.Reason, &r.Confirmation)
	if err != nil {
		return r, fmt.Errorf("read removals: %w", err)
	}
	r.HoldTime = database.FromMicros(since)
	return r, nil
}

// Held returns what would have been removed, in the order of clusters.
func (v View) Held(ctx context.Context) ([]Held, error) {
	rows, err := v.QueryContext(ctx, "SELECT r.name, h.services, h.hold_time FROM held_removals h JOIN resources r ON r.uid = h.cluster_uid ORDER BY r.name")
	list, err := database.Collect(rows, err, func(rows *sql.Rows) (h Held, err error) {
		var services []byte
		var since int64
		if err := rows.Scan(&h.Cluster, &services, &since); err != nil {
			return h, err
		}
		h.Time = database.FromMicros(since)
		return h, json.Unmarshal(services, &h.Services)
	})
	if err != nil {
		return nil, fmt.Errorf("read held removals: %w", err)
	}
	return list, nil
}

// HoldRemovals has removals wait for a person. False: they do already.
func (t Tx) HoldRemovals(ctx context.Context, reason string) (bool, error) {
	res, err := t.ExecContext(ctx, "UPDATE removals SET hold_time = $1, reason = $2 WHERE hold_time = 0", database.Micros(t.Now), reason)
	if err != nil {
		return false, fmt.Errorf("hold removals: %w", err)
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// ReleaseRemovals lets them go.
func (t Tx) ReleaseRemovals(ctx context.Context) error {
	for _, stmt := range []string{"DELETE FROM held_removals", "UPDATE removals SET hold_time = 0, reason = '', confirmation = '" + database.NewID() + "'"} {
		if _, err := t.ExecContext(ctx, stmt); err != nil {
			return fmt.Errorf("release removals: %w", err)
		}
	}
	return nil
}

// PutHeld keeps what would have been removed from a cluster, by its uid; no services: nothing is.
func (t Tx) PutHeld(ctx context.Context, cluster string, services []string) error {
	if len(services) == 0 {
		_, err := t.ExecContext(ctx, "DELETE FROM held_removals WHERE cluster_uid = $1", cluster)
		return err
	}
	text, err := json.Marshal(services)
	if err != nil {
		return fmt.Errorf("encode held services: %w", err)
	}
	if _, err := t.ExecContext(ctx, "INSERT INTO held_removals (cluster_uid, services, hold_time) VALUES ($1, $2, $3)"+
		" ON CONFLICT (cluster_uid) DO UPDATE SET services = excluded.services", cluster, string(text), database.Micros(t.Now)); err != nil {
		return fmt.Errorf("keep held services: %w", err)
	}
	return nil
}
