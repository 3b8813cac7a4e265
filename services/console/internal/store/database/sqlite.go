package database

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

	"fairlead.dev/platform/container"
)

const (
	// writeCache is the page cache of the writer, in bytes, where memory is not limited. The cache fits the indexes of
	// 300,000 services: SQLite's own 2 MB made each report of a fleet that comes at once read and write pages that the
	// report before had just let go of. A container gives at most a share of its memory, and no less than leastCache is
	// of use.
	writeCache, leastCache, cacheShare = 128 << 20, 8 << 20, 12
	// logPages is how long the write-ahead log grows before its pages are copied into the database: 8 MiB, for 4 MiB that
	// are SQLite's own limit. A page that commit after commit changes (the last one of events, of the audit trail, of an
	// index) is copied half as often.
	logPages = 2048
	// readCache is that of each connection that reads. The cache serves one look at the database: a commit of the
	// writer empties it.
	readCache = 4 << 20
)

// useSQLite opens one connection for writes, which SQLite can only do one by one, and a pool for
// reads, which WAL never makes wait. synchronous=FULL: a commit is on disk before it returns.
func (d *DB) useSQLite(file string) error {
	path, err := filepath.Abs(file)
	if err != nil || file == "" {
		return fmt.Errorf("database URL: sqlite: needs a file, such as sqlite:/var/lib/fairlead/console.db")
	}
	writer := sqliteDSN(
		path, "journal_mode(WAL)", "synchronous(FULL)", fmt.Sprintf("wal_autocheckpoint(%d)", logPages),
		cacheSize(writerCache(container.MemoryLimit(os.DirFS("/")))),
	)
	if d.write, err = sql.Open("sqlite", writer+"&_txlock=immediate"); err != nil {
		return fmt.Errorf("open SQLite: %w", err)
	}
	d.write.SetMaxOpenConns(1)
	d.lane = make(chan struct{}, 1)
	if d.read, err = sql.Open("sqlite", sqliteDSN(path, "query_only(1)", cacheSize(readCache))); err != nil {
		return fmt.Errorf("open SQLite: %w", err)
	}
	d.read.SetMaxOpenConns(maxConns)
	d.read.SetMaxIdleConns(maxConns)
	d.read.SetConnMaxIdleTime(connMaxIdle)
	d.Dialect = Dialect{
		goose:   goose.DialectSQLite3,
		folder:  "sqlite",
		kind:    "sqlite",
		about:   "SELECT sqlite_version(), (SELECT page_count FROM pragma_page_count()) * (SELECT page_size FROM pragma_page_size())",
		LockLog: "SELECT seq FROM log", // the transaction began IMMEDIATE: it has the lock
		// The driver's work for a statement grows with the square of its values, and with numbers much
		// faster. There are no round trips to save.
		InsertRows: 1,
		packed:     sqlitePacked,
		tables:     "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
		Clear:      sqliteClear,
		Numbers: []string{
			"INSERT INTO sqlite_sequence (name, seq) SELECT 'events', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'events')",
			"UPDATE sqlite_sequence SET seq = (SELECT MAX(n) FROM (SELECT COALESCE(MAX(seq), 0) AS n FROM events UNION ALL SELECT seq FROM events_gone)) WHERE name = 'events'",
		},
		lockFile:    path + ".lock",
		makeFile:    func() error { return makeDatabase(path) },
		Now:         "CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER)",
		unavailable: sqliteUnavailable,
		full:        sqliteFull,
		check:       func(ctx context.Context, db *sql.DB) error { return db.PingContext(ctx) },
	}
	return nil
}

// packedDatabase is SQLite's user_version of a database whose states are packed from its beginning on. Others stay as they
// are: whoever upgraded may go back to a console that reads plain JSON only.
const packedDatabase = 1

func sqlitePacked(ctx context.Context, db *sql.DB, isNew bool) (bool, error) {
	if isNew {
		if _, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", packedDatabase)); err != nil {
			return false, err
		}
	}
	var version int
	err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	return version == packedDatabase, err
}

// writerCache is how large the writer's cache may be with so much memory, both in bytes; 0: it is not limited.
func writerCache(limit int64) int64 {
	if limit == 0 {
		return writeCache
	}
	return min(max(limit/cacheShare, leastCache), writeCache)
}

// cacheSize is the pragma of a cache of so many bytes.
func cacheSize(bytes int64) string { return fmt.Sprintf("cache_size(-%d)", bytes>>10) }

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

func sqliteFull(err error) bool {
	se, ok := errors.AsType[*sqlite.Error](err)
	return ok && se.Code()&0xff == sqlite3.SQLITE_FULL
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

// sqliteClear empties tables, also those that keep their rows.
func sqliteClear(ctx context.Context, tx Tx, tables []string) error {
	rows, err := tx.QueryContext(ctx, "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
	triggers, err := Collect(rows, err, func(rows *sql.Rows) (t [2]string, err error) {
		err = rows.Scan(&t[0], &t[1])
		return t, err
	})
	if err != nil {
		return err
	}
	stmts := []string{"PRAGMA user_version = 0"} // what comes is plain: see packedDatabase
	for _, t := range triggers {
		stmts = append(stmts, "DROP TRIGGER "+t[0])
	}
	for _, table := range tables {
		stmts = append(stmts, "DELETE FROM "+table)
	}
	for _, t := range triggers {
		stmts = append(stmts, t[1])
	}
	for _, stmt := range stmts {
		if _, err := tx.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	return nil
}
