package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"fairlead.dev/services/console/internal/store/database"
)

// Cursor is a place in the change log. The zero Cursor is before the first change.
type Cursor struct {
	Seq int64
	// Nonce is of the change with this number.
	Nonce string
}

// Change is the last change of a resource so far.
type Change struct {
	Cursor  Cursor
	Kind    Kind
	Name    string
	UID     string
	Deleted bool
	// Resource is as it was when the change was read; zero if Deleted.
	Resource Resource
	// Heads is set for a source.
	Heads Heads
	// Config is the revision of a service's configuration.
	Config string
}

const changeColumns = resourceColumns + ", COALESCE(h.epoch, 0), COALESCE(h.owner, ''), COALESCE(h.state, ''), COALESCE(f.revision, '')"

// change numbers a change and writes it to the log. The row of the resource must get the number.
func (t *Tx) change(ctx context.Context, r Resource, deleted bool) (int64, error) {
	r.Seq = t.number()
	return r.Seq, t.log(ctx, deleted, r)
}

func (t *Tx) number() int64 {
	t.seq++
	t.changed = true
	return t.seq
}

// log writes changes that have their numbers to the log.
func (t *Tx) log(ctx context.Context, deleted bool, list ...Resource) error {
	err := database.Insert(ctx, t.tx, "INSERT INTO changes (seq, nonce, kind, name, uid, deleted) VALUES ", list, func(r Resource) []any {
		return []any{r.Seq, database.NewID(), r.Kind, r.Name, r.UID, deleted}
	})
	if err != nil {
		return fmt.Errorf("insert change: %w", err)
	}
	return nil
}

// finish keeps the log's number and bound, and tells the others.
func (t *Tx) finish(ctx context.Context) error {
	if !t.changed {
		return nil
	}
	if _, err := t.tx.ExecContext(ctx, "UPDATE log SET seq = $1", t.seq); err != nil {
		return fmt.Errorf("update log: %w", err)
	}
	// By seq alone, so cheap enough for each write: the rows are at the end of the index.
	if _, err := t.tx.ExecContext(ctx, "DELETE FROM changes WHERE seq <= $1", t.seq-t.store.logLimit); err != nil {
		return fmt.Errorf("trim log: %w", err)
	}
	if t.store.Dialect.Notify == "" {
		return nil
	}
	if _, err := t.tx.ExecContext(ctx, t.store.Dialect.Notify); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// End is the place behind the last change.
func (v View) End(ctx context.Context) (Cursor, error) {
	var c Cursor
	err := v.db.QueryRowContext(ctx, "SELECT l.seq, COALESCE(c.nonce, '') FROM log l LEFT JOIN changes c ON c.seq = l.seq").Scan(&c.Seq, &c.Nonce)
	return c, err
}

// Reaches says whether the log still has everything behind c.
func (v View) Reaches(ctx context.Context, c Cursor) (bool, error) {
	if c.Seq == 0 {
		var first sql.NullInt64
		err := v.db.QueryRowContext(ctx, "SELECT MIN(seq) FROM changes").Scan(&first)
		return err == nil && c.Nonce == "" && (!first.Valid || first.Int64 == 1), err
	}
	var nonce string
	err := v.db.QueryRowContext(ctx, "SELECT nonce FROM changes WHERE seq = $1", c.Seq).Scan(&nonce)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil && nonce == c.Nonce, err
}

// Changes returns what is among the next limit changes behind a place, in their order, and the
// place to go on. Changes that a later one of the same resource made old are left out.
func (v View) Changes(ctx context.Context, after int64, limit int) ([]Change, Cursor, error) {
	rows, err := v.db.QueryContext(ctx, "SELECT c.seq, c.nonce, c.kind, c.name, c.uid, c.deleted, (r.uid IS NOT NULL),"+
		" COALESCE(r.labels, ''), COALESCE(r.spec, ''), COALESCE(r.revision, 0), COALESCE(r.create_time, 0), COALESCE(r.update_time, 0),"+
		" COALESCE(h.epoch, 0), COALESCE(h.owner, ''), COALESCE(h.state, ''), COALESCE(f.revision, '')"+
		" FROM changes c LEFT JOIN resources r ON r.uid = c.uid AND r.seq = c.seq LEFT JOIN heads h ON h.source_uid = r.uid"+
		" LEFT JOIN configs f ON f.service_uid = r.uid"+
		" WHERE c.seq > $1 ORDER BY c.seq LIMIT $2", after, limit)
	end := Cursor{Seq: after}
	all, err := database.Collect(rows, err, func(rows *sql.Rows) (*Change, error) {
		c, current, err := scanChange(rows)
		if err != nil {
			return nil, err
		}
		end = c.Cursor
		if !current {
			return nil, nil
		}
		return &c, nil
	})
	if err != nil {
		return nil, Cursor{}, fmt.Errorf("read changes: %w", err)
	}
	var list []Change
	for _, c := range all {
		if c != nil {
			list = append(list, *c)
		}
	}
	return list, end, nil
}

func scanChange(rows *sql.Rows) (c Change, current bool, err error) {
	var labels, state string
	var created, updated int64
	r := &c.Resource
	if err := rows.Scan(&c.Cursor.Seq, &c.Cursor.Nonce, &c.Kind, &c.Name, &c.UID, &c.Deleted, &current,
		&labels, &r.Spec, &r.Revision, &created, &updated, &c.Heads.Epoch, &c.Heads.Owner, &state, &c.Config); err != nil {
		return Change{}, false, err
	}
	if c.Deleted {
		c.Resource = Resource{}
		return c, true, nil
	}
	if !current {
		return c, false, nil
	}
	c.Heads.State = []byte(state)
	r.Kind, r.Name, r.UID, r.Seq = c.Kind, c.Name, c.UID, c.Cursor.Seq
	r.CreateTime, r.UpdateTime = database.FromMicros(created), database.FromMicros(updated)
	return c, true, r.decodeLabels(labels)
}

// Snapshot returns every resource, or those of some kinds, without sealed values, and the place that it
// shows.
func (v View) Snapshot(ctx context.Context, kinds ...Kind) ([]Change, Cursor, error) {
	end, err := v.End(ctx)
	if err != nil {
		return nil, Cursor{}, fmt.Errorf("read end of log: %w", err)
	}
	var list []Change
	if len(kinds) == 0 {
		kinds = Kinds()
	}
	for _, kind := range kinds {
		rows, err := v.db.QueryContext(ctx, "SELECT "+changeColumns+
			" FROM resources r LEFT JOIN heads h ON h.source_uid = r.uid LEFT JOIN configs f ON f.service_uid = r.uid WHERE r.kind = $1 ORDER BY r.name", kind)
		part, err := database.Collect(rows, err, func(rows *sql.Rows) (Change, error) {
			var c Change
			var err error
			c.Resource, err = scanResource(rows, &c.Heads.Epoch, &c.Heads.Owner, &c.Heads.State, &c.Config)
			c.Resource.Sealed = nil
			c.Kind, c.Name, c.UID = kind, c.Resource.Name, c.Resource.UID
			return c, err
		})
		if err != nil {
			return nil, Cursor{}, fmt.Errorf("read %ss: %w", kind, err)
		}
		list = append(list, part...)
	}
	return list, end, nil
}

// Foreign says whether a place is one that this history never had, or not as it was: the database was put back to an
// earlier state since, or is another one. Of a place that is not kept any more nobody knows.
func (v View) Foreign(ctx context.Context, c Cursor) (bool, error) {
	end, err := v.End(ctx)
	if err != nil || c.Seq > end.Seq {
		return err == nil, err
	}
	var nonce string
	err = v.db.QueryRowContext(ctx, "SELECT nonce FROM changes WHERE seq = $1", c.Seq).Scan(&nonce)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil && nonce != c.Nonce, err
}
