package store

import (
	"bufio"
	"bytes"
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
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/platform/retry"
)

// maxBackupLine bounds one row of a backup, in bytes.
const maxBackupLine = 256 << 20

var (
	// ErrBackup is of a file that is no whole backup.
	ErrBackup = errors.New("is not a whole backup")
	// ErrNotEmpty is of a database that something would be lost of.
	ErrNotEmpty = errors.New("the database is not empty: name an empty one, or say --replace to lose what is in it")
	// ErrInUse is of a database that another process works with.
	ErrInUse = errors.New("a console uses the database, or a restore fills it: stop all consoles and wait for the restore to end")
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
	if s.dialect.alone != nil {
		if err := s.dialect.alone(ctx, s.write); err != nil {
			return err
		}
	}
	if err := s.prepare(ctx, in.head); err != nil {
		return err
	}
	if err := s.load(ctx, in, r); err != nil {
		return s.classify(err)
	}
	return s.Migrate(ctx) // from an earlier release; it ends the restore
}

// prepare gives the database the tables that the backup is of.
func (s *Store) prepare(ctx context.Context, head BackupHead) error {
	has, err := View{s.write, &s.dialect}.migrations(ctx)
	if err != nil {
		return fmt.Errorf("read migrations: %w", s.classify(err))
	}
	for _, n := range has {
		if !slices.Contains(head.Migrations, n) {
			return errors.New("the backup is of an earlier release than the database: restore it into a new one, which is upgraded then")
		}
	}
	all, err := fs.Sub(migrations, "migrations/"+s.dialect.folder)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	files, known := someFiles{all, nil}, []int64{}
	entries, err := fs.ReadDir(all, ".")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err == nil && slices.Contains(head.Migrations, n) {
			files.only, known = append(files.only, e), append(known, n)
		}
	}
	for _, n := range head.Migrations {
		if !slices.Contains(known, n) {
			return fmt.Errorf("the backup is of a later release (migration %d): restore it with that one", n)
		}
	}
	return s.migrate(ctx, files)
}

// someFiles is a folder of which only some files are seen.
type someFiles struct {
	fs.FS
	only []fs.DirEntry
}

func (f someFiles) ReadDir(string) ([]fs.DirEntry, error) { return f.only, nil }

func (f someFiles) Glob(pattern string) (names []string, err error) {
	for _, e := range f.only {
		ok, err := path.Match(pattern, e.Name())
		if err != nil {
			return nil, err
		}
		if ok {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// load reads all rows in one transaction. The schema is that of the backup, which may be of an earlier release: what
// else belongs to a restore waits for Migrate.
func (s *Store) load(ctx context.Context, in *backupReader, r Restore) error {
	sqlTx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin restore: %w", err)
	}
	defer func() { _ = sqlTx.Rollback() }() // after a commit it does nothing
	if err := s.dialect.lock(ctx, sqlTx, s.dialect.unhurried); err != nil {
		return fmt.Errorf("begin restore: %w", s.classify(err))
	}
	t := &Tx{View: View{sqlTx, &s.dialect}, tx: sqlTx, store: s, now: s.clock()}
	if err := sqlTx.QueryRowContext(ctx, s.dialect.lockLog).Scan(&t.seq); err != nil {
		return fmt.Errorf("lock catalog: %w", err)
	}
	tables, err := t.tables(ctx)
	if err != nil {
		return err
	}
	tables = slices.DeleteFunc(tables, func(name string) bool { return name == ownTable || name == restoredTable })
	if !r.Replace {
		if err := t.empty(ctx, tables); err != nil {
			return err
		}
	}
	if err := s.dialect.clear(ctx, sqlTx, tables); err != nil {
		return fmt.Errorf("empty database: %w", err)
	}
	if err := in.into(ctx, t, tables, r.Progress); err != nil {
		return err
	}
	left, err := json.Marshal(restored{r.Reason(in.head), r.Audit(in.head), r.Events(in.head)})
	if err != nil {
		return fmt.Errorf("encode what is left to do: %w", err)
	}
	for _, stmt := range []string{"DROP TABLE IF EXISTS " + restoredTable, "CREATE TABLE " + restoredTable + " (todo TEXT NOT NULL)"} {
		if _, err := sqlTx.ExecContext(ctx, stmt); err != nil {
			return fmt.Errorf("note what is left to do: %w", err)
		}
	}
	if _, err := sqlTx.ExecContext(ctx, "INSERT INTO "+restoredTable+" (todo) VALUES ($1)", string(left)); err != nil {
		return fmt.Errorf("note what is left to do: %w", err)
	}
	if err := sqlTx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// empty is ErrNotEmpty when a table has rows that nobody makes anew.
func (t *Tx) empty(ctx context.Context, tables []string) error {
	madeAnew := []string{"log", "audit_volume", "events_gone", "removals", "signing_keys", "config_key", "login_links"}
	for _, table := range tables {
		if slices.Contains(madeAnew, table) {
			continue
		}
		var any bool
		if err := t.tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+table+")").Scan(&any); err != nil {
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
	return s.transact(ctx, func(ctx context.Context, sqlTx *sql.Tx) error {
		t := &Tx{View: View{sqlTx, &s.dialect}, tx: sqlTx, store: s, now: s.clock()}
		if err := sqlTx.QueryRowContext(ctx, s.dialect.lockLog).Scan(&t.seq); err != nil {
			return fmt.Errorf("lock catalog: %w", err)
		}
		tables, err := t.tables(ctx)
		if err != nil || !slices.Contains(tables, restoredTable) {
			return err
		}
		var text string
		var left restored
		if err := sqlTx.QueryRowContext(ctx, "SELECT todo FROM "+restoredTable).Scan(&text); err != nil {
			return fmt.Errorf("read what is left to do: %w", err)
		}
		if err := json.Unmarshal([]byte(text), &left); err != nil {
			return fmt.Errorf("decode what is left to do: %w", err)
		}
		// Events that were packed in the database that was backed up are plain here, and the other way round.
		const volume = "UPDATE audit_volume SET bytes = (SELECT COALESCE(SUM(" + auditSize + "), 0) FROM audit)"
		for _, stmt := range append(slices.Clone(s.dialect.numbers), volume, "DROP TABLE "+restoredTable) {
			if _, err := sqlTx.ExecContext(ctx, stmt); err != nil {
				return fmt.Errorf("end restore: %w", err)
			}
		}
		if _, err := t.HoldRemovals(ctx, left.Reason); err != nil {
			return err
		}
		return errors.Join(t.insertAudit(ctx, []AuditEvent{left.Audit}), s.insertEvents(ctx, sqlTx, left.Events))
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
func (in *backupReader) into(ctx context.Context, t *Tx, tables []string, progress func(string, int64)) error {
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
		to = &loader{tx: t, table: next.Table, columns: next.Columns}
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
	tx      *Tx
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
	query := "INSERT INTO " + l.table + " (" + strings.Join(l.columns, ", ") + ") " + l.tx.dialect.ownNumbers + " VALUES "
	if err := insert(ctx, l.tx, query, l.waiting, func(row []any) []any { return row }); err != nil {
		return fmt.Errorf("insert into %s: %w", l.table, err)
	}
	l.waiting = nil
	return nil
}

// sqliteClear empties tables, also those that keep their rows.
func sqliteClear(ctx context.Context, tx *sql.Tx, tables []string) error {
	rows, err := tx.QueryContext(ctx, "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
	triggers, err := collect(rows, err, func(rows *sql.Rows) (t [2]string, err error) {
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

// postgresClear does the same. The lock that it takes keeps everybody else out.
func postgresClear(ctx context.Context, tx *sql.Tx, tables []string) error {
	var stmts []string
	for _, table := range tables {
		stmts = append(stmts, "ALTER TABLE "+table+" DISABLE TRIGGER USER")
	}
	stmts = append(stmts, "TRUNCATE "+strings.Join(tables, ", "))
	for _, table := range tables {
		stmts = append(stmts, "ALTER TABLE "+table+" ENABLE TRIGGER USER")
	}
	for _, stmt := range stmts {
		if _, err := tx.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	return nil
}

const (
	// leaveTime is how long a console that has ended may seem to be connected: its backends live on for a moment.
	leaveTime  = 5 * time.Second
	leavePause = 50 * time.Millisecond
)

// postgresAlone is an error when a console is connected.
func postgresAlone(ctx context.Context, db *sql.DB) error {
	for until := time.Now().Add(leaveTime); ; {
		var others int
		err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'fairlead-console' AND pid <> pg_backend_pid()").Scan(&others)
		switch {
		case err != nil || others == 0:
			return err
		case time.Now().After(until):
			return ErrInUse
		}
		if !retry.Sleep(ctx, leavePause) {
			return ctx.Err()
		}
	}
}
