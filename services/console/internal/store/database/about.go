package database

import (
	"context"
	"fmt"
	"time"
)

// Written is a write that was committed.
type Written struct {
	Time time.Time
	// Took is from the begin of the transaction to the end of its commit.
	Took time.Duration
}

// About is what is known of the database itself.
type About struct {
	// Kind is sqlite or postgresql.
	Kind    string
	Version string
	Bytes   int64
	// LastWrite is the last one of this console; zero: there was none.
	LastWrite Written
	// WriteFailed says that writes fail with a database that answers reads; Problem is nil: they do not.
	WriteFailed Failed
}

// Failed is why writes fail, and since when.
type Failed struct {
	Since   time.Time
	Problem error
}

// About returns what is known of the database. Kind and LastWrite are known with the database away, too.
func (d *DB) About(ctx context.Context) (About, error) {
	out := About{Kind: d.Dialect.kind}
	if last := d.lastWrite.Load(); last != nil {
		out.LastWrite = *last
	}
	if failed := d.writeFailed.Load(); failed != nil {
		out.WriteFailed = *failed
	}
	if err := d.read.QueryRowContext(ctx, d.Dialect.about).Scan(&out.Version, &out.Bytes); err != nil {
		return out, fmt.Errorf("read size of database: %w", d.Classify(err))
	}
	return out, nil
}

// NoteWrite notes a write that was committed just now, as LastWrite.
func (d *DB) NoteWrite(began time.Time) {
	end := d.now()
	d.lastWrite.Store(&Written{Time: end, Took: end.Sub(began)})
}
