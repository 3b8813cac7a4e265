package store

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

	"fairlead.dev/services/console/internal/store/database"
)

// maxBackupLine bounds one row of a backup, in bytes.
const maxBackupLine = 256 << 20

var (
	// ErrBackup is of a file that is no whole backup.
	ErrBackup = errors.New("is not a whole backup")
	// ErrNotEmpty is of a database that something would be lost of.
	ErrNotEmpty = errors.New("the database is not empty: name an empty one, or say --replace to lose what is in it")
)

// restoredTable is there from when a backup is loaded until all of the restore has happened.
const restoredTable = "restored"

// restored is what is left to do once the schema of a backup is that of this release.
type restored struct {
	Reason string
	Audit  AuditEvent
	Events []Event
}

// Restore is how a database is restored.
type Restore struct {
	From io.Reader
	// Replace removes what is in the database.
	Replace bool
	// Check refuses a backup by its head.
	Check func(BackupHead) error
	// Reason is why removals are held from then on, Audit and Events are added to what is restored.
	Reason func(BackupHead) string
	Audit  func(BackupHead) AuditEvent
	Events func(BackupHead) []Event
	// Progress is told how many rows there were so far.
	Progress func(table string, rows int64)
}

// Restore brings a backup into the database: all of it or, in whatever way it ends, nothing. No console may use the
// database meanwhile.
func (s *Store) Restore(ctx context.Context, r Restore) error {
	in, err := openBackup(r.From)
	if err != nil {
		return err
	}
	if err := r.Check(in.head); err != nil {
		return err
	}
	if err := s.Use(); err != nil {
		return err
	}
	if err := s.Alone(ctx); err != nil {
		return err
	}
	if err := s.load(ctx, in, r); err != nil {
		return err
	}
	return s.Migrate(ctx) // from an earlier release; it ends the restore
}

// load reads all rows in one transaction. The schema is that of the backup, which may be of an earlier release: what
// else belongs to a restore waits for Migrate.
func (s *Store) load(ctx context.Context, in *backupReader, r Restore) error {
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
		tables = slices.DeleteFunc(tables, func(name string) bool { return name == database.MigrationsTable || name == restoredTable })
		if !r.Replace {
			if err := empty(ctx, tx, tables); err != nil {
				return err
			}
		}
		if err := s.Dialect.Clear(ctx, tx, tables); err != nil {
			return fmt.Errorf("empty database: %w", err)
		}
		if err := in.into(ctx, tx, tables, r.Progress); err != nil {
			return err
		}
		left, err := json.Marshal(restored{r.Reason(in.head), r.Audit(in.head), r.Events(in.head)})
		if err != nil {
			return fmt.Errorf("encode what is left to do: %w", err)
		}
		for _, stmt := range []string{"DROP TABLE IF EXISTS " + restoredTable, "CREATE TABLE " + restoredTable + " (todo TEXT NOT NULL)"} {
			if _, err := tx.ExecContext(ctx, stmt); err != nil {
				return fmt.Errorf("note what is left to do: %w", err)
			}
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO "+restoredTable+" (todo) VALUES ($1)", string(left)); err != nil {
			return fmt.Errorf("note what is left to do: %w", err)
		}
		return nil
	})
}

// empty is ErrNotEmpty when a table has rows that nobody makes anew.
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
			return ErrNotEmpty
		}
	}
	return nil
}

// endRestore does what a restore left to do, if there was one: also after one that was killed, when a console starts.
func (s *Store) endRestore(ctx context.Context) error {
	return s.Transact(ctx, func(ctx context.Context, tx database.Tx) error {
		t := s.txOver(tx)
		if err := tx.QueryRowContext(ctx, s.Dialect.LockLog).Scan(&t.seq); err != nil {
			return fmt.Errorf("lock catalog: %w", err)
		}
		tables, err := tx.View().Tables(ctx)
		if err != nil || !slices.Contains(tables, restoredTable) {
			return err
		}
		var text string
		var left restored
		if err := tx.QueryRowContext(ctx, "SELECT todo FROM "+restoredTable).Scan(&text); err != nil {
			return fmt.Errorf("read what is left to do: %w", err)
		}
		if err := json.Unmarshal([]byte(text), &left); err != nil {
			return fmt.Errorf("decode what is left to do: %w", err)
		}
		// Events that were packed in the database that was backed up are plain here, and the other way round.
		const volume = "UPDATE audit_volume SET bytes = (SELECT COALESCE(SUM(" + auditSize + "), 0) FROM audit)"
		for _, stmt := range append(slices.Clone(s.Dialect.Numbers), volume, "DROP TABLE "+restoredTable) {
			if _, err := tx.ExecContext(ctx, stmt); err != nil {
				return fmt.Errorf("end restore: %w", err)
			}
		}
		if _, err := t.HoldRemovals(ctx, left.Reason); err != nil {
			return err
		}
		return errors.Join(t.insertAudit(ctx, []AuditEvent{left.Audit}), s.insertEvents(ctx, tx, left.Events))
	})
}

type backupReader struct {
	from *bufio.Reader
	sum  hash.Hash
	head BackupHead
	rows int64
}

func openBackup(from io.Reader) (*backupReader, error) {
	packed, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBackup, err)
	}
	in := &backupReader{from: bufio.NewReaderSize(packed, 64<<10), sum: sha256.New()}
	line, err := in.line()
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(line, &in.head); err != nil || in.head.Format != backupFormat {
		return nil, fmt.Errorf("%w: it does not begin as one of this format (%s)", ErrBackup, backupFormat)
	}
	_, _ = in.sum.Write(line)
	return in, nil
}

// line returns the next one, with its end.
func (in *backupReader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := in.from.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w: it is damaged or cut short behind row %d: %w", ErrBackup, in.rows, err)
		case len(line) > maxBackupLine:
			return nil, fmt.Errorf("%w: row %d is too long", ErrBackup, in.rows+1)
		}
	}
}

// into inserts all that follows.
func (in *backupReader) into(ctx context.Context, tx database.Tx, tables []string, progress func(string, int64)) error {
	var to *loader
	for {
		line, err := in.line()
		if err != nil {
			return err
		}
		if line[0] == '[' {
			row, err := values(line)
			if err != nil || to == nil || len(row) != len(to.columns) {
				return fmt.Errorf("%w: row %d makes no sense", ErrBackup, in.rows+1)
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
			backupTable
			backupEnd
		}
		if err := json.Unmarshal(line, &next); err != nil {
			return fmt.Errorf("%w: what follows row %d makes no sense", ErrBackup, in.rows)
		}
		if next.End {
			return in.whole(next.backupEnd)
		}
		if !slices.Contains(tables, next.Table) || slices.ContainsFunc(next.Columns, func(c string) bool { return !plainName.MatchString(c) }) {
			return fmt.Errorf("%w: table %q is not one of this release", ErrBackup, next.Table)
		}
		_, _ = in.sum.Write(line)
		to = &loader{tx: tx, table: next.Table, columns: next.Columns}
	}
}

var plainName = regexp.MustCompile(`^[a-z_]+$`)

// whole compares the end with what was read, and reads on to where gzip has its own sum.
func (in *backupReader) whole(end backupEnd) error {
	if end.Rows != in.rows || end.SHA256 != hex.EncodeToString(in.sum.Sum(nil)) {
		return fmt.Errorf("%w: it is damaged: what is in it does not hash to %s", ErrBackup, end.SHA256)
	}
	if _, err := in.from.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows its end", ErrBackup)
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
