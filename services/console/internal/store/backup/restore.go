package backup

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"regexp"
	"slices"
	"strings"

	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/audittrail"
	"fairlead.dev/services/console/internal/store/database"
)

// maxLine bounds one row of a backup, in bytes.
const maxLine = 256 << 20

var (
	// errNotWhole is of a file that is no whole backup.
	errNotWhole = errors.New("is not a whole backup")
	// errNotEmpty is of a database that something would be lost of.
	errNotEmpty = errors.New("the database is not empty: name an empty one, or say --replace to lose what is in it")
)

// Options say what is restored, and how.
type Options struct {
	From io.Reader
	// Replace removes what is in the database.
	Replace bool
	// Check refuses a backup by its head.
	Check func(Head) error
	// Reason is why removals are held from then on, Audit and Events are added to what is restored.
	Reason func(Head) string
	Audit  func(Head) audittrail.Event
	Events func(Head) []store.Event
	// Progress is told how many rows there were so far.
	Progress func(table string, rows int64)
}

// Restore brings a backup into the database: all of it or, in whatever way it ends, nothing. No console may use the
// database meanwhile.
func Restore(ctx context.Context, s *store.Store, opts Options) error {
	in, err := openFile(opts.From)
	if err != nil {
		return err
	}
	if err := opts.Check(in.head); err != nil {
		return err
	}
	if err := s.Use(); err != nil {
		return err
	}
	if err := s.Alone(ctx); err != nil {
		return err
	}
	if err := load(ctx, s, in, opts); err != nil {
		return err
	}
	return s.Migrate(ctx) // from an earlier release; it ends the restore
}

// load reads all rows in one transaction. The schema is that of the backup, which may be of an earlier release: what
// else belongs to a restore waits for Migrate.
func load(ctx context.Context, s *store.Store, in *reader, opts Options) error {
	if err := s.MigrateLike(ctx, in.head.Migrations); err != nil {
		return err
	}
	return s.TransactUnhurried(ctx, func(tx database.Tx) error {
		var seq int64
		if err := tx.QueryRowContext(ctx, s.Dialect.LockLog).Scan(&seq); err != nil {
			return fmt.Errorf("lock catalog: %w", err)
		}
		tables, err := tx.View().Tables(ctx)
		if err != nil {
			return err
		}
		tables = slices.DeleteFunc(tables, func(name string) bool { return name == database.MigrationsTable || name == store.RestoredTable })
		if !opts.Replace {
			if err := empty(ctx, tx, tables); err != nil {
				return err
			}
		}
		if err := s.Dialect.Clear(ctx, tx, tables); err != nil {
			return fmt.Errorf("empty database: %w", err)
		}
		if err := in.into(ctx, tx, tables, opts.Progress); err != nil {
			return err
		}
		return store.Restored{Reason: opts.Reason(in.head), Audit: opts.Audit(in.head), Events: opts.Events(in.head)}.Note(ctx, tx)
	})
}

// empty is errNotEmpty when a table has rows that nobody makes anew.
func empty(ctx context.Context, tx database.Tx, tables []string) error {
	madeAnew := []string{"log", "audit_volume", "events_gone", "removals", "signing_keys", "config_key", "login_links"}
	for _, table := range tables {
		if slices.Contains(madeAnew, table) {
			continue
		}
		var any bool
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+table+")").Scan(&any); err != nil {
			return fmt.Errorf("look into table %s: %w", table, err)
		}
		if any {
			return errNotEmpty
		}
	}
	return nil
}

type reader struct {
	from *bufio.Reader
	sum  hash.Hash
	head Head
	rows int64
}

func openFile(from io.Reader) (*reader, error) {
	packed, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotWhole, err)
	}
	in := &reader{from: bufio.NewReaderSize(packed, 64<<10), sum: sha256.New()}
	line, err := in.line()
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(line, &in.head); err != nil || in.head.Format != fileFormat {
		return nil, fmt.Errorf("%w: it does not begin as one of this format (%s)", errNotWhole, fileFormat)
	}
	_, _ = in.sum.Write(line)
	return in, nil
}

// line returns the next one, with its end.
func (in *reader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := in.from.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w: it is damaged or cut short behind row %d: %w", errNotWhole, in.rows, err)
		case len(line) > maxLine:
			return nil, fmt.Errorf("%w: row %d is too long", errNotWhole, in.rows+1)
		}
	}
}

// into inserts all that follows.
func (in *reader) into(ctx context.Context, tx database.Tx, tables []string, progress func(string, int64)) error {
	var to *loader
	for {
		line, err := in.line()
		if err != nil {
			return err
		}
		if line[0] == '[' {
			row, err := values(line)
			if err != nil || to == nil || len(row) != len(to.columns) {
				return fmt.Errorf("%w: row %d makes no sense", errNotWhole, in.rows+1)
			}
			in.rows++
			_, _ = in.sum.Write(line)
			if err := to.add(ctx, row); err != nil {
				return err
			}
			continue
		}
		if to != nil {
			if err := to.flush(ctx); err != nil {
				return err
			}
			progress(to.table, in.rows)
		}
		var next struct {
			tableHead
			fileEnd
		}
		if err := json.Unmarshal(line, &next); err != nil {
			return fmt.Errorf("%w: what follows row %d makes no sense", errNotWhole, in.rows)
		}
		if next.End {
			return in.whole(next.fileEnd)
		}
		if !slices.Contains(tables, next.Table) || slices.ContainsFunc(next.Columns, func(c string) bool { return !plainName.MatchString(c) }) {
			return fmt.Errorf("%w: table %q is not one of this release", errNotWhole, next.Table)
		}
		_, _ = in.sum.Write(line)
		to = &loader{tx: tx, table: next.Table, columns: next.Columns}
	}
}

var plainName = regexp.MustCompile(`^[a-z_]+$`)

// whole compares the end with what was read, and reads on to where gzip has its own sum.
func (in *reader) whole(end fileEnd) error {
	if end.Rows != in.rows || end.SHA256 != hex.EncodeToString(in.sum.Sum(nil)) {
		return fmt.Errorf("%w: it is damaged: what is in it does not hash to %s", errNotWhole, end.SHA256)
	}
	if _, err := in.from.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows its end", errNotWhole)
	}
	return nil
}

// values are those of a row, as databases take them.
func values(line []byte) ([]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	var row []any
	if err := decoder.Decode(&row); err != nil {
		return nil, err
	}
	for i, value := range row {
		switch value := value.(type) {
		case json.Number:
			n, err := value.Int64()
			if err != nil {
				return nil, err
			}
			row[i] = n
		case map[string]any:
			var b bytesValue
			text, err := json.Marshal(value)
			if err == nil {
				err = json.Unmarshal(text, &b)
			}
			if err != nil {
				return nil, err
			}
			row[i] = b.Bytes
		}
	}
	return row, nil
}

// loader inserts the rows of a table, many at a time.
type loader struct {
	tx      database.Tx
	table   string
	columns []string
	waiting [][]any
}

func (l *loader) add(ctx context.Context, row []any) error {
	if l.waiting = append(l.waiting, row); len(l.waiting) < 500 {
		return nil
	}
	return l.flush(ctx)
}

func (l *loader) flush(ctx context.Context) error {
	query := "INSERT INTO " + l.table + " (" + strings.Join(l.columns, ", ") + ") " + l.tx.Dialect.OwnNumbers + " VALUES "
	if err := database.Insert(ctx, l.tx, query, l.waiting, func(row []any) []any { return row }); err != nil {
		return fmt.Errorf("insert into %s: %w", l.table, err)
	}
	l.waiting = nil
	return nil
}
