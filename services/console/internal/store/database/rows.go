package database

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"
)

// ChunkSize bounds the values of one IN list.
const ChunkSize = 200

// Row is one row of a query.
type Row interface{ Scan(dest ...any) error }

// NotFound is ErrNotFound for an error of a row that is missing.
func NotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

// Anys are values as arguments of a query, behind others.
func Anys[T any](list []T, first ...any) []any {
	for _, v := range list {
		first = append(first, v)
	}
	return first
}

// Collect reads all rows.
func Collect[T any](rows *sql.Rows, err error, scan func(*sql.Rows) (T, error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err has told
	var list []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, rows.Err()
}

// ByKey reads the rows of many keys, which come behind the query as a list.
func ByKey[K comparable, V any](ctx context.Context, v View, query string, keys []string, scan func(*sql.Rows) (K, V, error)) (map[K]V, error) {
	return ByKeys(ctx, v, query, keys, "", scan)
}

// ByKeys is ByKey of a query that goes on behind the keys.
func ByKeys[K comparable, V any](ctx context.Context, v View, query string, keys []string, after string, scan func(*sql.Rows) (K, V, error)) (map[K]V, error) {
	found := make(map[K]V, len(keys))
	for chunk := range slices.Chunk(keys, ChunkSize) {
		in, args := v.Dialect.List(chunk)
		rows, err := v.QueryContext(ctx, query+in+after, args...)
		if found, err = Keyed(rows, err, found, scan); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Keyed adds all rows to a map.
func Keyed[K comparable, V any](rows *sql.Rows, err error, to map[K]V, scan func(*sql.Rows) (K, V, error)) (map[K]V, error) {
	_, err = Collect(rows, err, func(rows *sql.Rows) (struct{}, error) {
		k, val, err := scan(rows)
		to[k] = val
		return struct{}{}, err
	})
	if err != nil {
		return nil, err
	}
	return to, nil
}

// Insert writes rows with as few statements as are good for the database. The rows come behind VALUES in the query.
func Insert[T any](ctx context.Context, tx Tx, query string, list []T, row func(T) []any) error {
	size := tx.Dialect.InsertRows
	before, after, _ := strings.Cut(query, "VALUES ")
	rows := func(n, values int) string { return before + "VALUES " + tx.Dialect.rows(n, values) + " " + after }
	of := ctx // of a statement
	if size == 1 {
		// SQLite's driver has a goroutine watch the context of each statement, which takes as long as a part of the
		// row. A row takes microseconds: the context is looked at between two.
		of = context.WithoutCancel(ctx)
	}
	var full *sql.Stmt // for as many rows as that
	for chunk := range slices.Chunk(list, size) {
		if err := ctx.Err(); err != nil {
			return err
		}
		var args []any
		for _, v := range chunk {
			args = append(args, row(v)...)
		}
		if full == nil && len(list) >= 2*size {
			var err error
			if full, err = tx.PrepareContext(of, rows(size, len(args)/size)); err != nil {
				return err
			}
			defer func() { _ = full.Close() }() // ends with the transaction anyway
		}
		var err error
		if full != nil && len(chunk) == size {
			_, err = full.ExecContext(of, args...)
		} else {
			_, err = tx.ExecContext(of, rows(len(chunk), len(args)/len(chunk)), args...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rows are placeholders for rows of some values each.
func (d *Dialect) rows(rows, values int) string {
	list := make([]string, rows)
	for i := range list {
		list[i] = d.Placeholders(1+i*values, values)
	}
	return strings.Join(list, ",")
}

// Prepared has one statement run many times: most of the time of a short one goes into reading it.
func Prepared(ctx context.Context, tx Tx, text string, run func(*sql.Stmt) error) error {
	stmt, err := tx.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	defer func() { _ = stmt.Close() }() // ends with the transaction anyway
	return run(stmt)
}

// ExecEach runs one statement for n rows.
func ExecEach(ctx context.Context, tx Tx, n int, query string, args func(int) []any) error {
	return Prepared(ctx, tx, query, func(stmt *sql.Stmt) error {
		for i := range n {
			if _, err := stmt.ExecContext(ctx, args(i)...); err != nil {
				return err
			}
		}
		return nil
	})
}

// SortedKeys are the keys of a map, in order.
func SortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Micros is a time as it is stored; 0: none.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// FromMicros is the time of Micros.
func FromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// WithoutNUL makes an id of a caller one that any database takes: PostgreSQL refuses a NUL in a text, and no id has
// either of the two.
func WithoutNUL(id string) string { return strings.ReplaceAll(id, "\x00", "?") }

// NewID is a random name of 130 bits.
func NewID() string {
	return strings.ToLower(rand.Text())
}
