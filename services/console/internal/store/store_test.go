package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"fairlead.dev/platform/postgrestest"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/database"
	"fairlead.dev/services/console/internal/store/storetest"
)

var postgres postgrestest.Server

func TestMain(m *testing.M) {
	if url := os.Getenv(migrateURL); url != "" {
		if err := migrateOnly(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	_ = postgres.Stop()
	os.Exit(code)
}

func opener(t *testing.T, url string) storetest.Open {
	return func(opts store.Options) *store.Store {
		s, err := store.New(url, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func TestSQLiteKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Open {
		return opener(t, "sqlite:"+filepath.Join(t.TempDir(), "odd name?#.db"))
	})
}

func TestPostgresKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Open { return opener(t, postgres.Database(t)) })
}

func TestUnreachableDatabaseIsUnavailable(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://ada:hunter2@127.0.0.1:1/fairlead",
		"sqlite:" + filepath.Join(t.TempDir(), "missing", "console.db"),
	} {
		s, err := store.New(url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Migrate(t.Context())
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error tells the password: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The time of a write can be over between its last statement and the commit: the caller may try again.
func TestAWriteThatRanOutOfTimeAtItsCommitIsUnavailable(t *testing.T) {
	t.Parallel()
	s := opener(t, "sqlite:"+filepath.Join(t.TempDir(), "console.db"))(store.Options{})
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(100*time.Millisecond))
	defer cancel()
	err := s.Transact(ctx, func(ctx context.Context, tx database.Tx) error {
		<-ctx.Done()
		for !errors.Is(tx.Rollback(), sql.ErrTxDone) { // the transaction is rolled back beside this one
			runtime.Gosched()
		}
		return nil
	})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// A write that has read a sealed value, and carries it over, must not undo the renewal that commits meanwhile: the
// older key is taken away after it. SQLite has one writer at a time.
func TestARenewedValueStaysSoBesideAWriteThatKeepsIt(t *testing.T) {
	t.Parallel()
	s := opener(t, postgres.Database(t))(store.Options{})
	pool := s.Databases()["catalog"]
	err := s.Write(t.Context(), "ada", func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Create(ctx, store.Draft{
			Kind: store.KindSecret, Name: "git", Spec: []byte("{}"),
			Sealed: []byte("old"),
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	waits := func() bool { // for a lock
		var n int
		err := pool.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n)
		if err != nil {
			t.Error(err)
		}
		return n > 0 || err != nil
	}
	err = s.Write(t.Context(), "ada", func(ctx context.Context, tx *store.Tx) error {
		was, err := tx.Get(ctx, store.KindSecret, "git")
		if err != nil {
			return err
		}
		go func() {
			done <- s.RenewSealed(t.Context(), func(v store.Sealed) ([]byte, error) {
				if string(v.Value) == "old" {
					return []byte("new"), nil
				}
				return nil, nil
			})
		}()
		for len(done) == 0 && !waits() {
			runtime.Gosched()
		}
		_, err = tx.Update(ctx, was, store.Draft{
			Kind: was.Kind, Name: was.Name,
			Labels: map[string]string{"team": "shop"}, Spec: was.Spec, Sealed: was.Sealed,
		})
		return err
	})
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	err = s.Read(t.Context(), func(ctx context.Context, v store.View) error {
		is, err := v.Get(ctx, store.KindSecret, "git")
		if err == nil && (string(is.Sealed) != "new" || is.Labels["team"] != "shop") {
			t.Errorf("got %q, %v", is.Sealed, is.Labels)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBadURLIsRefusedWithoutRepeatingIt(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "sqlite:", "mysql://ada:hunter2@db/x", "postgres://ada:hunter2@db:port/x",
		"postgres://ada:hunter2@%zz/",
	} {
		_, err := store.New(url, store.Options{})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
