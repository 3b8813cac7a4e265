package database

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// MigrationsTable is goose's own.
const MigrationsTable = "goose_db_version"

// Migrate brings the schema up to date. Call it before anything else but Use; several consoles may do so at once.
func (d *DB) Migrate(ctx context.Context) error {
	if d.Dialect.check != nil {
		if err := d.Dialect.check(ctx, d.write); err != nil {
			return fmt.Errorf("open database: %w", d.Classify(err))
		}
	}
	files, err := fs.Sub(migrations, "migrations/"+d.Dialect.folder)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if d.Dialect.packed != nil {
		tables, err := View{d.write, &d.Dialect}.Tables(ctx)
		if err == nil {
			d.Dialect.packs, err = d.Dialect.packed(ctx, d.write, len(tables) == 0)
		}
		if err != nil {
			return fmt.Errorf("open database: %w", d.Classify(err))
		}
	}
	return d.migrate(ctx, files)
}

func (d *DB) migrate(ctx context.Context, files fs.FS) error {
	// Out of order: of two that were written at the same time the one with the lower number may come later.
	opts := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithAllowOutofOrder(true)}
	if d.Dialect.goose == goose.DialectPostgres {
		locker, err := newMigrationLock()
		if err != nil {
			return fmt.Errorf("prepare migration lock: %w", err)
		}
		opts = append(opts, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(d.Dialect.goose, d.write, files, opts...)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate database: %w", d.Classify(err))
	}
	return nil
}

// MigrateLike gives the database the schema that has some migrations. There may be no others in it.
func (d *DB) MigrateLike(ctx context.Context, numbers []int64) error {
	has, err := View{d.write, &d.Dialect}.Migrations(ctx)
	if err != nil {
		return fmt.Errorf("read migrations: %w", d.Classify(err))
	}
	for _, n := range has {
		if !slices.Contains(numbers, n) {
			return errors.New("the backup is of an earlier release than the database: restore it into a new one, which is upgraded then")
		}
	}
	all, err := fs.Sub(migrations, "migrations/"+d.Dialect.folder)
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
		if err == nil && slices.Contains(numbers, n) {
			files.only, known = append(files.only, e), append(known, n)
		}
	}
	for _, n := range numbers {
		if !slices.Contains(known, n) {
			return fmt.Errorf("the backup is of a later release (migration %d): restore it with that one", n)
		}
	}
	return d.migrate(ctx, files)
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

// Tables are the names of all tables, in order.
func (v View) Tables(ctx context.Context) ([]string, error) {
	rows, err := v.QueryContext(ctx, v.Dialect.tables)
	return Collect(rows, err, func(rows *sql.Rows) (name string, err error) {
		err = rows.Scan(&name)
		return name, err
	})
}

// Migrations are the numbers of those that were applied, in order.
func (v View) Migrations(ctx context.Context) ([]int64, error) {
	tables, err := v.Tables(ctx)
	if err != nil || !slices.Contains(tables, MigrationsTable) {
		return nil, err
	}
	rows, err := v.QueryContext(ctx, "SELECT version_id FROM "+MigrationsTable+" WHERE version_id > 0 ORDER BY version_id")
	return Collect(rows, err, func(rows *sql.Rows) (n int64, err error) {
		err = rows.Scan(&n)
		return n, err
	})
}
