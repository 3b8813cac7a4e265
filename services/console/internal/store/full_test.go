package store

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// A full disk is told from a database that is away: reads go on, and nobody finds out by waiting.
func TestAFullDiskIsSaidUntilAWriteSucceeds(t *testing.T) {
	t.Parallel()
	s, err := New("sqlite:"+filepath.Join(t.TempDir(), "console.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		t.Helper()
		var is int
		if err := s.Databases()["catalog"].QueryRowContext(t.Context(), "PRAGMA max_page_count("+strconv.Itoa(pages)+")").Scan(&is); err != nil {
			t.Fatal(err)
		}
	}
	writes := map[string]func() error{
		"events": func() error {
			return s.AddEvents(t.Context(), Event{ID: NewEventID(), Time: time.Now(), Type: "test", Event: make([]byte, 1<<20)})
		},
		"catalog": func() error {
			return s.Write(t.Context(), "ada", func(_ context.Context, tx *Tx) error {
				tx.Tell(Event{ID: NewEventID(), Time: time.Now(), Type: "test", Event: make([]byte, 1<<20)})
				return nil
			})
		},
	}
	for name, write := range writes {
		limit(1) // no more than there are
		if err := write(); !errors.Is(err, ErrDiskFull) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: got %v", name, err)
		}
		if is, err := s.About(t.Context()); err != nil || !errors.Is(is.WriteFailed.Problem, ErrDiskFull) || is.WriteFailed.Since.IsZero() {
			t.Errorf("%s: got %+v, %v", name, is, err)
		}
		limit(1 << 30)
		if err := write(); err != nil {
			t.Fatal(err)
		}
		if is, err := s.About(t.Context()); err != nil || is.WriteFailed.Problem != nil {
			t.Errorf("%s: there is room again: got %+v, %v", name, is, err)
		}
	}
}

// A read may need room for what it sorts, and says nothing of writes.
func TestAFullDiskOfAReadIsNoFailedWrite(t *testing.T) {
	t.Parallel()
	s, err := New("sqlite:"+filepath.Join(t.TempDir(), "console.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var is int
	if err := s.Databases()["catalog"].QueryRowContext(t.Context(), "PRAGMA max_page_count(1)").Scan(&is); err != nil {
		t.Fatal(err)
	}
	_, full := s.Databases()["catalog"].ExecContext(t.Context(), "CREATE TABLE large AS SELECT zeroblob(1048576)")
	err = s.Read(t.Context(), func(context.Context, View) error { return full })
	if !errors.Is(err, ErrDiskFull) {
		t.Fatalf("got %v of %v", err, full)
	}
	if is, err := s.About(t.Context()); err != nil || is.WriteFailed.Problem != nil {
		t.Errorf("got %+v, %v", is, err)
	}
}
