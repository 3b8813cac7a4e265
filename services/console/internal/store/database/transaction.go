package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxWrite is how long a transaction may take to commit: a hung database must not pile up callers. A look at something
// has as long.
const MaxWrite = 15 * time.Second

// View reads at one moment.
type View struct {
	Querier
	Dialect *Dialect
}

// Querier runs statements that read.
type Querier interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// Tx is a transaction that writes.
type Tx struct {
	*sql.Tx
	Dialect *Dialect
	// Now is the time of the write.
	Now time.Time
	// Author is who the write is recorded for; empty: nobody.
	Author string
}

// View reads what the transaction sees.
func (t Tx) View() View { return View{t.Tx, t.Dialect} }

// Lock runs the statement of a lock that ends with the transaction; empty: none is needed.
func (t Tx) Lock(ctx context.Context, statement string) error {
	if statement == "" {
		return nil
	}
	if _, err := t.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}

// Read calls fn with a view on one moment, which ends after limit.
func (d *DB) Read(ctx context.Context, limit time.Duration, fn func(context.Context, View) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tx, err := d.beginRead(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing to keep; also ends what a panic left open
	return d.Classify(ended(ctx, fn(ctx, View{reading{tx}, &d.Dialect})))
}

// ReadUnhurried is Read for as long as it takes, however long that is between two statements.
func (d *DB) ReadUnhurried(ctx context.Context, fn func(View) error) error {
	tx, err := d.beginRead(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing to keep
	if err := d.over(tx).Lock(ctx, d.Dialect.unhurried); err != nil {
		return fmt.Errorf("begin read: %w", d.Classify(err))
	}
	return d.Classify(fn(View{tx, &d.Dialect}))
}

func (d *DB) beginRead(ctx context.Context) (*sql.Tx, error) {
	tx, err := d.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("begin read: %w", d.Classify(err))
	}
	return tx, nil
}

// reading is a transaction that reads, by what callers ask for. PostgreSQL takes no text with a NUL, or that is no
// UTF-8, which no row has: with other characters in their place nothing is found, as in SQLite.
type reading struct{ tx *sql.Tx }

// QueryContext implements Querier.
func (r reading) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return r.tx.QueryContext(ctx, query, readable(args)...)
}

// QueryRowContext implements Querier.
func (r reading) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return r.tx.QueryRowContext(ctx, query, readable(args)...)
}

// readable returns the arguments of a query with texts that any database takes.
func readable(args []any) []any {
	for i, arg := range args {
		text, ok := arg.(string)
		if !ok || utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
			continue
		}
		args = slices.Clone(args)
		args[i] = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	}
	return args
}

// Transact runs fn in a transaction on the writer.
func (d *DB) Transact(ctx context.Context, fn func(context.Context, Tx) error) (err error) {
	defer func() {
		if errors.Is(err, ErrDiskFull) {
			d.writeFailed.CompareAndSwap(nil, &Failed{Since: d.Clock(), Problem: ErrDiskFull})
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, MaxWrite)
	defer cancel()
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin write: %w", d.Classify(ended(ctx, err)))
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := fn(ctx, d.over(tx)); err != nil {
		return d.Classify(ended(ctx, err))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", d.Classify(ended(ctx, err)))
	}
	d.writeFailed.Store(nil)
	return nil
}

// TransactUnhurried is Transact for as long as it takes, however long that is between two statements.
func (d *DB) TransactUnhurried(ctx context.Context, fn func(Tx) error) error {
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin write: %w", d.Classify(err))
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := d.over(tx).Lock(ctx, d.Dialect.unhurried); err != nil {
		return fmt.Errorf("begin write: %w", d.Classify(err))
	}
	if err := fn(d.over(tx)); err != nil {
		return d.Classify(err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", d.Classify(err))
	}
	return nil
}

func (d *DB) over(tx *sql.Tx) Tx { return Tx{Tx: tx, Dialect: &d.Dialect, Now: d.Clock()} }

// TransactLane is Transact in the lane of statuses: a person's write waits for one of them at most.
func (d *DB) TransactLane(ctx context.Context, fn func(context.Context, Tx) error) error {
	leave, err := d.enterLane(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return d.Transact(ctx, fn)
}

// enterLane waits for the turn of a transaction of statuses, which ends with leave.
func (d *DB) enterLane(ctx context.Context) (leave func(), err error) {
	if d.lane == nil {
		return func() {}, nil
	}
	select {
	case d.lane <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("begin write: %w", d.Classify(ctx.Err()))
	}
	leave = func() { <-d.lane }
	if err := ctx.Err(); err != nil { // the caller waits no more
		leave()
		return nil, fmt.Errorf("begin write: %w", d.Classify(err))
	}
	return leave, nil
}

// closedStatement is what database/sql says of a prepared statement whose transaction is done; there is no value for
// it.
const closedStatement = "sql: statement is closed"

// ended returns why the context of a transaction ended instead of what the transaction says of it: a transaction is
// rolled back at that moment, and a statement or a commit behind it says that the transaction is done. Any other error
// stays.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil || err == nil {
		return err
	}
	done := errors.Is(err, sql.ErrTxDone) || errors.Is(err, context.Canceled) || strings.Contains(err.Error(), closedStatement)
	switch {
	case !done:
		return err
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded): // of a group, too, which is canceled
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// Classify marks errors that are about the database as a whole.
func (d *DB) Classify(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotFound) || errors.Is(err, context.Canceled) {
		return err
	}
	if d.Dialect.full(err) {
		return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrDiskFull, err)
	}
	if errors.Is(err, context.DeadlineExceeded) || d.Dialect.unavailable(err) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}
