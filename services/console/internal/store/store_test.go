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
	migrated := false
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
		if !migrated {
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			migrated = true
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
	err := s.Transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
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

func TestBadURLIsRefusedWithoutRepeatingIt(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "sqlite:", "mysql://ada:hunter2@db/x", "postgres://ada:hunter2@db:port/x", "postgres://ada:hunter2@%zz/"} {
		_, err := store.New(url, store.Options{})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
