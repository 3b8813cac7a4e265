package database

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// consoleGone is how long after its last sign of life a console counts as gone. It says every ten seconds that it is
// there.
const consoleGone = 30 * time.Second

// Console is one of those that share the database.
type Console struct {
	// ID is another one after each start.
	ID            string
	Name, Version string
	Started       time.Time
}

// KeepConsole records a sign of life of a console, and removes consoles that are gone. It does not count as LastWrite.
func (d *DB) KeepConsole(ctx context.Context, c Console) error {
	_, err := d.write.ExecContext(ctx, "INSERT INTO consoles (id, name, version, start_time, seen_time) VALUES ($1, $2, $3, $4, "+d.Dialect.Now+")"+ //nolint:gosec // one of two constants
		" ON CONFLICT (id) DO UPDATE SET seen_time = excluded.seen_time", c.ID, c.Name, c.Version, Micros(c.Started))
	if err == nil {
		_, err = d.write.ExecContext(ctx, "DELETE FROM consoles WHERE seen_time < "+d.Dialect.Now+" - $1", consoleGone.Microseconds()) //nolint:gosec // one of two constants
	}
	if err != nil {
		return fmt.Errorf("keep console: %w", d.Classify(err))
	}
	return nil
}

// RemoveConsole forgets a console that ends, by its id.
func (d *DB) RemoveConsole(ctx context.Context, id string) error {
	if _, err := d.write.ExecContext(ctx, "DELETE FROM consoles WHERE id = $1", id); err != nil {
		return fmt.Errorf("remove console: %w", d.Classify(err))
	}
	return nil
}

// Consoles returns those that are there, in the order of their names.
func (d *DB) Consoles(ctx context.Context) ([]Console, error) {
	rows, err := d.read.QueryContext(ctx, "SELECT id, name, version, start_time FROM consoles WHERE seen_time >= "+d.Dialect.Now+" - $1 ORDER BY name, start_time, id", //nolint:gosec // one of two constants
		consoleGone.Microseconds())
	list, err := Collect(rows, err, func(rows *sql.Rows) (c Console, err error) {
		var started int64
		err = rows.Scan(&c.ID, &c.Name, &c.Version, &started)
		c.Started = FromMicros(started)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read consoles: %w", d.Classify(err))
	}
	return list, nil
}
