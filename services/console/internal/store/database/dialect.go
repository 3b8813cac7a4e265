package database

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"

	"fairlead.dev/services/console/internal/pack"
)

// Dialect is where the two databases differ.
type Dialect struct {
	goose   goose.Dialect
	folder  string
	LockLog string // reads the log's row and keeps it until the commit
	Notify  string // tells other consoles of the commit; empty: there are none
	// LockAudit keeps other consoles from adding audit events until the commit; empty: there are none.
	LockAudit string
	// LockEvents is the same for events.
	LockEvents string
	// LockViews is the same for views.
	LockViews string
	// LockBegun is for deployments that begin, LockSteps for what clusters say of deployments: one of two that come at
	// the same time sees what the other wrote.
	LockBegun, LockSteps string

	check  func(context.Context, *sql.DB) error
	listen func(ctx context.Context, wake func()) error
	// tables lists the names of all tables, in order; Clear empties tables; Numbers sets what numbers rows behind the
	// last one.
	tables  string
	Clear   func(context.Context, Tx, []string) error
	Numbers []string
	// OwnNumbers lets an insert say the number of a row.
	OwnNumbers string
	// lockFile is locked by the one process that may use the database; empty: several may.
	lockFile string
	// makeFile makes the file of such a database if it is missing.
	makeFile func() error
	// alone is an error while a console uses the database; nil: the lock tells.
	alone func(context.Context, *sql.DB) error
	// unhurried lets a transaction wait for as long as it likes between two statements; empty: all may.
	unhurried string
	// Now is the database's time in microseconds: clocks of consoles differ.
	Now string
	// InsertRows is how many rows one statement inserts.
	InsertRows int
	// packs says that the JSON of states is written packed, and packed finds that out of a database, which may have no
	// tables yet; nil: it never is.
	packs  bool
	packed func(ctx context.Context, db *sql.DB, isNew bool) (bool, error)
	// Arrays says that one statement takes the rows of many services: each statement is a round trip.
	Arrays bool
	// kind is what people call the database, and about reads its version and how many bytes it takes.
	kind, about string
	// numbered says that placeholders in lists have numbers.
	numbered bool
	// unavailable says whether an error is about the database as a whole.
	unavailable func(error) bool
	// full says whether an error is that the disk is.
	full func(error) bool
}

// Text is the JSON of a state as it is written.
func (d *Dialect) Text(json []byte) any {
	if d.packs {
		return pack.Pack(json)
	}
	return string(json)
}

// Short is a digest or an id as it is written. One database has all of them packed or none: they are compared there.
func (d *Dialect) Short(text string) any {
	if d.packs && text != "" {
		return pack.Short(text)
	}
	return text
}

// UnpackInto reads the JSON of a state, a digest or an id, packed or not.
func UnpackInto[T string | []byte](text *T) unpacking[T] { return unpacking[T]{text} }

type unpacking[T string | []byte] struct{ text *T }

// Scan implements sql.Scanner.
func (u unpacking[T]) Scan(value any) error {
	switch value := value.(type) {
	case nil:
		var none T
		*u.text = none
	case string:
		*u.text = T(value)
	case []byte:
		text, err := pack.Unpack(value)
		if err != nil {
			return err
		}
		*u.text = T(text)
	default:
		return fmt.Errorf("read a packed text: it is a %T", value)
	}
	return nil
}

// Placeholders is a list of n placeholders, the first with number first.
func (d *Dialect) Placeholders(first, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteByte(',')
		if !d.numbered {
			b.WriteByte('?')
			continue
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(first + i))
	}
	return "(" + strings.TrimPrefix(b.String(), ",") + ")"
}

// List is what stands behind IN for these values, in a query whose other values come first.
func (d *Dialect) List(values []string, first ...any) (text string, args []any) {
	at := len(first) + 1
	if d.Arrays {
		return d.Placeholders(at, len(values)), Anys(values, first...)
	}
	// The time that SQLite's driver takes for a statement grows with the square of its values.
	one, _ := json.Marshal(values) // texts can be encoded
	return fmt.Sprintf("(SELECT value FROM json_each($%d))", at), append(first, string(one))
}
