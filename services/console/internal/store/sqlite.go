package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// useSQLite opens one connection for writes, which SQLite can only do one by one, and a pool for
// reads, which WAL never makes wait. synchronous=FULL: a commit is on disk before it returns.
func (s *Store) useSQLite(file string) error {
	path, err := filepath.Abs(file)
	if err != nil || file == "" {
		return fmt.Errorf("database URL: sqlite: needs a file, such as sqlite:/var/lib/fairlead/console.db")
	}
	if s.write, err = sql.Open("sqlite", sqliteDSN(path, "journal_mode(WAL)", "synchronous(FULL)")+"&_txlock=immediate"); err != nil {
		return fmt.Errorf("open SQLite: %w", err)
	}
	s.write.SetMaxOpenConns(1)
	if s.read, err = sql.Open("sqlite", sqliteDSN(path, "query_only(1)")); err != nil {
		return fmt.Errorf("open SQLite: %w", err)
	}
	s.read.SetMaxOpenConns(maxConns)
	s.read.SetMaxIdleConns(maxConns / 2)
	s.dialect = dialect{
		goose:   goose.DialectSQLite3,
		folder:  "sqlite",
		lockLog: "SELECT seq FROM log", // the transaction began IMMEDIATE: it has the lock
		// The driver's work for a statement grows with the square of its values, and with numbers much
		// faster. There are no round trips to save.
		insertRows: 1,
		tables:     "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
		clear:      sqliteClear,
		numbers: []string{
			"INSERT INTO sqlite_sequence (name, seq) SELECT 'events', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'events')",
			"UPDATE sqlite_sequence SET seq = (SELECT MAX(n) FROM (SELECT COALESCE(MAX(seq), 0) AS n FROM events UNION ALL SELECT seq FROM events_gone)) WHERE name = 'events'",
		},
		lockFile:    path + ".lock",
		makeFile:    func() error { return makeDatabase(path) },
		now:         "CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER)",
		unavailable: sqliteUnavailable,
		check:       func(ctx context.Context, db *sql.DB) error { return db.PingContext(ctx) },
	}
	return nil
}

// makeDatabase makes the file, if it is missing, readable by its owner only: SQLite would make it readable by all.
func makeDatabase(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	return f.Close()
}

func sqliteDSN(path string, pragmas ...string) string {
	// busy_timeout: a checkpoint or a backup tool may hold the lock for a moment.
	values := url.Values{"_pragma": append([]string{"busy_timeout(10000)"}, pragmas...)}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: values.Encode()}).String()
}

func sqliteUnavailable(err error) bool {
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return true
	}
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return false
	}
	switch se.Code() & 0xff { // the rest is detail
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT:
		return true
	}
	return false
}
