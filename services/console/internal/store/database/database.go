// Package database is where the console keeps its state: SQLite in the console's own folder, or a PostgreSQL that
// several consoles share. The package knows how to open either, brings the schema up to date, and runs transactions and
// statements; the packages above it know the tables.
//
// Callers rely on these, with either database:
//
//   - Transact is atomic: all of it happened, or nothing. Once it returned nil, it survives kill -9.
//   - Read sees one moment: what it reads fits together.
//   - A missing row is ErrNotFound. A database that doesn't answer is ErrUnavailable.
//   - A cancelled context ends a call; whether its write happened is then unknown to the caller.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"fairlead.dev/platform/lockfile"
)

var (
	// ErrNotFound is what a lookup without a result returns.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable wraps errors of a database that doesn't answer or can't write now.
	ErrUnavailable = errors.New("the catalog's database does not answer")
	// ErrDiskFull is within ErrUnavailable: the database answers, and takes no writes.
	ErrDiskFull = errors.New("the disk of the catalog's database is full: make room on it")
	// ErrInUse is of a database that another process works with.
	ErrInUse = errors.New("a console uses the database, or a restore fills it: stop all consoles and wait for the restore to end")
)

// maxConns bounds the connections of one console to its database.
const maxConns = 16

// DB is one database.
type DB struct {
	Dialect Dialect
	write   *sql.DB // SQLite: one connection
	read    *sql.DB
	now     func() time.Time
	lock    *lockfile.Lock // nil: there is none, or Use was not called

	lastWrite   atomic.Pointer[Written] // nil: there was none
	writeFailed atomic.Pointer[Failed]  // nil: the last write did not fail for want of room

	// lane is held by the one transaction of statuses that may wait for the only connection for writes; nil: there are
	// several. So a person's write waits for one of them at most, however many there are.
	lane chan struct{}
}

// New prepares a database by its URL: sqlite:<file> or postgres://... New connects to nothing. now is the clock.
func New(url string, now func() time.Time) (*DB, error) {
	return open(func() []string { return []string{url} }, now)
}

// Open is New with the URL in a file. For PostgreSQL the file may have several of one database, one a line, and is read
// again for each connection. log is told of a file with the URL that can't be used as it is.
func Open(path string, now func() time.Time, log *slog.Logger) (*DB, error) {
	urls, err := urlsOf(path, log)
	if err != nil {
		return nil, err
	}
	return open(urls, now)
}

func open(urls func() []string, now func() time.Time) (*DB, error) {
	d := &DB{now: now}
	var err error
	switch url := urls()[0]; {
	case strings.HasPrefix(url, "sqlite:"):
		err = d.useSQLite(strings.TrimPrefix(url, "sqlite:"))
	case isPostgres(url):
		err = d.usePostgres(urls)
	default:
		// The URL may hold a password: it is not repeated.
		err = errors.New("database URL must begin with sqlite: or postgres://")
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Use keeps others from a database that only one process may use, until Close. ErrInUse: another one does.
func (d *DB) Use() error {
	if d.Dialect.lockFile == "" {
		return nil
	}
	lock, err := lockfile.Try(d.Dialect.lockFile)
	if errors.Is(err, lockfile.ErrHeld) {
		return ErrInUse
	}
	if err != nil {
		return err
	}
	d.lock = lock
	return d.Dialect.makeFile()
}

// Alone is an error while a console uses a database that several may use.
func (d *DB) Alone(ctx context.Context) error {
	if d.Dialect.alone == nil {
		return nil // the lock of Use tells
	}
	return d.Dialect.alone(ctx, d.write)
}

// Close ends all connections.
func (d *DB) Close() error {
	err := errors.Join(d.read.Close(), d.write.Close())
	if d.lock != nil {
		err = errors.Join(err, d.lock.Release())
	}
	return err
}

// Ping is nil when the database answers a query.
func (d *DB) Ping(ctx context.Context) error {
	var seq int64
	if err := d.read.QueryRowContext(ctx, "SELECT seq FROM log").Scan(&seq); err != nil {
		return fmt.Errorf("read database: %w", d.Classify(err))
	}
	return nil
}

// Databases are the pools, for metrics.
func (d *DB) Databases() map[string]*sql.DB {
	if d.read == d.write {
		return map[string]*sql.DB{"catalog": d.write}
	}
	return map[string]*sql.DB{"catalog": d.write, "catalog_read": d.read}
}

// Shared says whether other consoles may use the same database.
func (d *DB) Shared() bool { return d.Dialect.listen != nil }

// Listen calls wake after each change of the catalog by another console, until ctx ends. Listen may call wake without
// cause, and may miss a change while the connection to the database is lost.
func (d *DB) Listen(ctx context.Context, wake func()) error {
	if !d.Shared() {
		<-ctx.Done()
		return nil
	}
	return d.Dialect.listen(ctx, wake)
}

// Clock is now in the precision that is stored.
func (d *DB) Clock() time.Time {
	return d.now().UTC().Truncate(time.Microsecond)
}
