// Package backup writes all that the store has into one file, and brings such a file into a database of either kind.
package backup

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"fairlead.dev/services/console/internal/pack"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/database"
	"fairlead.dev/services/console/internal/store/shown"
)

// A backup is text that gzip has packed, one JSON value per line: what it is, then each table as its name and columns
// and a list of values per row, and at the end how many rows there were and what all lines before hash to. The format
// is the same of both databases, so that either is restored from it.
const fileFormat = "fairlead console backup 1"

// Head is what a backup begins with.
type Head struct {
	Format string    `json:"format"`
	Time   time.Time `json:"time"`
	// Migrations of the schema that the rows are of.
	Migrations []int64 `json:"migrations"`
	// Keys are the ids of the master keys that have sealed something in it.
	Keys []string `json:"keys,omitempty"`
	// Change is the number of the last change of the catalog.
	Change int64 `json:"change"`
}

// tableHead begins the rows of a table.
type tableHead struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
}

// fileEnd ends a whole backup.
type fileEnd struct {
	End    bool   `json:"end"`
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"`
}

// bytesValue is a value that is no text.
type bytesValue struct {
	Bytes []byte `json:"b"`
}

// Write writes all that there is at one moment, while others read and write on.
func Write(ctx context.Context, s *store.Store, to io.Writer) error {
	packed := gzip.NewWriter(to)
	out := &writer{to: bufio.NewWriter(packed), sum: sha256.New()}
	err := s.ReadUnhurried(ctx, func(v database.View) error { return out.all(ctx, v, s.Clock()) })
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	return errors.Join(out.to.Flush(), packed.Close())
}

type writer struct {
	to   *bufio.Writer
	sum  hash.Hash
	rows int64
}

func (w *writer) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	_, _ = w.sum.Write(text) // a hash takes everything
	_, err = w.to.Write(text)
	return err
}

func (w *writer) all(ctx context.Context, v database.View, now time.Time) error {
	head := Head{Format: fileFormat, Time: now}
	var err error
	if head.Migrations, err = v.Migrations(ctx); err != nil {
		return err
	}
	if head.Keys, err = masterKeys(ctx, v); err != nil {
		return err
	}
	if err := v.QueryRowContext(ctx, "SELECT seq FROM log").Scan(&head.Change); err != nil {
		return err
	}
	if err := w.line(head); err != nil {
		return err
	}
	tables, err := v.Tables(ctx)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if table == database.MigrationsTable || table == shown.CurveTable { // the head names the migrations
			continue
		}
		if err := w.table(ctx, v, table); err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
	}
	return w.line(fileEnd{true, w.rows, hex.EncodeToString(w.sum.Sum(nil))})
}

func (w *writer) table(ctx context.Context, v database.View, table string) error {
	rows, err := v.QueryContext(ctx, "SELECT * FROM "+table)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err has told
	columns, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	head := tableHead{Table: table}
	for _, c := range columns {
		head.Columns = append(head.Columns, c.Name())
	}
	if err := w.line(head); err != nil {
		return err
	}
	values, to := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		to[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return err
		}
		for i, value := range values {
			switch value := value.(type) {
			case []byte:
				values[i] = bytesValue{value}
				if columns[i].DatabaseTypeName() == "TEXT" { // SQLite's are packed
					text, err := pack.Unpack(value)
					if err != nil {
						return fmt.Errorf("column %s: %w", columns[i].Name(), err)
					}
					values[i] = string(text)
				}
			case int64:
				if columns[i].DatabaseTypeName() == "BOOLEAN" { // SQLite's are numbers
					values[i] = value != 0
				}
			}
		}
		w.rows++
		if err := w.line(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

// masterKeys are the ids of those that have sealed something: bytes 1 to 4 of what is sealed, see package seal.
func masterKeys(ctx context.Context, v database.View) ([]string, error) {
	var parts []string
	for _, table := range []string{"resources", "configs", "places", "config_key", "signing_keys"} {
		parts = append(parts, "SELECT SUBSTR(sealed, 2, 4) FROM "+table+" WHERE LENGTH(sealed) > 5")
	}
	rows, err := v.QueryContext(ctx, strings.Join(parts, " UNION "))
	list, err := database.Collect(rows, err, func(rows *sql.Rows) (string, error) {
		var id []byte
		err := rows.Scan(&id)
		return hex.EncodeToString(id), err
	})
	slices.Sort(list)
	return list, err
}
