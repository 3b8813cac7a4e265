package backup_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/audittrail"
	"fairlead.dev/services/console/internal/store/backup"
	"fairlead.dev/services/console/internal/store/database"
)

// oldBackup is one of a release that had these migrations, with one source.
func oldBackup(t *testing.T, migrations []int64) io.Reader {
	t.Helper()
	var lines []byte
	add := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, text...), '\n')
	}
	type table struct {
		Table   string   `json:"table"`
		Columns []string `json:"columns"`
	}
	rows := 0
	fill := func(since int64, name string, columns []string, row ...any) {
		if slices.Contains(migrations, since) {
			add(table{name, columns})
			add(row)
			rows++
		}
	}
	add(map[string]any{"format": "fairlead console backup 1", "migrations": migrations, "change": 1})
	fill(1, "log", []string{"id", "seq"}, 1, 1)
	fill(13, "audit_volume", []string{"id", "bytes"}, 1, 0)
	fill(14, "events_gone", []string{"id", "seq"}, 1, 0)
	fill(18, "removals", []string{"id", "hold_time", "reason", "confirmation"}, 1, 0, "", "")
	fill(1, "resources", []string{
		"kind", "name", "uid", "revision", "labels", "spec", "create_time", "update_time",
		"seq",
	}, "source", "shop", "u1", 1, "{}", "{}", 1, 1, 1)
	sum := sha256.Sum256(lines)
	add(map[string]any{"end": true, "rows": rows, "sha256": hex.EncodeToString(sum[:])})
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(lines)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return &packed
}

func restoring(from io.Reader) backup.Options {
	return backup.Options{
		From:   from,
		Check:  func(backup.Head) error { return nil },
		Reason: func(backup.Head) string { return "restored" },
		Audit: func(backup.Head) audittrail.Event {
			return audittrail.Event{ID: "a1", Actor: "console", Action: "database.restore", Event: []byte("{}")}
		},
		Events: func(backup.Head) []store.Event {
			return []store.Event{{ID: "e1", Type: "catalog.restored", Event: []byte("{}")}}
		},
		Progress: func(string, int64) {},
	}
}

// A backup comes into the schema that it is of: what else belongs to a restore needs that of this release.
func TestBackupsOfAllEarlierReleasesAreRestored(t *testing.T) {
	t.Parallel()
	releases := []int64{1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 16, 17, 18, 25}
	for n := range releases {
		of := releases[:n+1]
		for name, url := range map[string]string{
			"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "console.db"),
			"postgres": postgres.Database(t),
		} {
			s, err := store.New(url, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := backup.Restore(t.Context(), s, restoring(oldBackup(t, of))); err != nil {
				t.Fatalf("%s, up to migration %d: %v", name, of[n], err)
			}
			err = s.Read(t.Context(), func(ctx context.Context, v store.View) error {
				removals, err := v.Removals(ctx)
				if err != nil || removals.HoldTime.IsZero() || removals.Reason != "restored" {
					t.Errorf("%s, up to migration %d: removals are %+v, %v", name, of[n], removals, err)
				}
				at, err := v.EventsEnd(ctx)
				if err != nil || at != 1 {
					t.Errorf("%s, up to migration %d: the last event is %d, %v", name, of[n], at, err)
				}
				_, err = v.Get(ctx, store.KindSource, "shop")
				return err
			})
			if err = errors.Join(err, s.Close()); err != nil {
				t.Errorf("%s, up to migration %d: %v", name, of[n], err)
			}
		}
	}
}

// A restore that is killed behind the commit of its rows is ended by who opens the database next.
func TestAConsoleEndsARestore(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "console.db")
	s, err := store.New(url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := backup.RestoreHalf(t.Context(), s, restoring(oldBackup(t, []int64{1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 16, 17}))); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openAt(t, url)                            // migrates
	if err := again.Migrate(t.Context()); err != nil { // a migration has ended before
		t.Fatal(err)
	}
	err = again.Read(t.Context(), func(ctx context.Context, v store.View) error {
		removals, err := v.Removals(ctx)
		if err != nil || removals.Reason != "restored" {
			t.Errorf("removals are %+v, %v", removals, err)
		}
		at, err := v.EventsEnd(ctx)
		if err != nil || at != 1 {
			t.Errorf("the last event is %d, %v", at, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The process that locks the file has the database, whether it has a connection just now or not.
func TestOneProcessUsesASQLiteDatabase(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "console.db")
	open := func() *store.Store {
		s, err := store.New(url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first, second := open(), open()
	if err := first.Use(); err != nil {
		t.Fatal(err)
	}
	if err := second.Use(); !errors.Is(err, database.ErrInUse) {
		t.Errorf("used twice: %v", err)
	}
	if err := backup.Restore(t.Context(), second, restoring(oldBackup(t, []int64{1}))); !errors.Is(err, database.ErrInUse) {
		t.Errorf("restored under a console: %v", err)
	}
	if err := errors.Join(first.Close(), second.Use(), second.Close()); err != nil {
		t.Errorf("after the first: %v", err)
	}
}
