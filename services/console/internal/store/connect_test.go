package store_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/services/console/internal/store"
)

// openAll holds as many connections at once as the store opens. All log in anew each time.
func openAll(ctx context.Context, s *store.Store) error {
	for _, db := range s.Databases() {
		most := db.Stats().MaxOpenConnections
		db.SetMaxIdleConns(0)
		db.SetMaxIdleConns(most)
		for range most {
			c, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			var seq int64
			if err := c.QueryRowContext(ctx, "SELECT seq FROM log").Scan(&seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// The steps are those of docs/operate/rotate.md.
func TestThePasswordOfPostgresChangesWithoutAStop(t *testing.T) {
	t.Parallel()
	old := postgres.Login(t, postgres.Database(t), "rotated", "0ld-password")
	next := strings.Replace(old, "0ld", "n3w", 1)
	file := filepath.Join(t.TempDir(), "url")
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(old)
	s, err := store.Open(file, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	serves := func(step string) {
		t.Helper()
		if err := openAll(t.Context(), s); err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}
	serves("before")
	write(old, next)
	serves("with both in the file")
	postgres.SetPassword(t, "rotated", "n3w-password")
	serves("with the new password at the server")
	if err := os.Rename(file, file+".away"); err != nil { // as a volume is for a moment
		t.Fatal(err)
	}
	serves("without the file")
	write(next)
	serves("with the new one alone")

	write(old)
	if err := openAll(t.Context(), s); err == nil {
		t.Error("the old password is accepted, or no connection was opened")
	} else if strings.Contains(err.Error(), "0ld") {
		t.Errorf("the error repeats the password: %v", err)
	}
}

// Half of the connections would read in one database, and half in the other.
func TestAConsoleStaysAtTheDatabaseOfItsStart(t *testing.T) {
	t.Parallel()
	here, elsewhere := postgres.Database(t), postgres.Database(t)
	file := filepath.Join(t.TempDir(), "url")
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(here)
	var said bytes.Buffer
	s, err := store.Open(file, store.Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(elsewhere) // where there are no tables
	if err := openAll(t.Context(), s); err != nil {
		t.Errorf("with another database in the file: %v", err)
	}
	if n := strings.Count(said.String(), "names another database"); n != 1 {
		t.Errorf("said %d times: %s", n, said.String())
	}
	write(here + "&application_name=other")
	if err := openAll(t.Context(), s); err != nil {
		t.Errorf("with the same database in another URL: %v", err)
	}
}

func TestAFileWithTheURLOfADatabaseIsChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "empty",
		"x":                                 "must begin with sqlite: or postgres://",
		"postgres://u:s3cret@h/d\nsqlite:x": "each must be a URL that begins with postgres://",
		"postgres://u:s3cret@h/d\npostgres://u:s3cret@h:port/d":             "not a valid PostgreSQL URL",
		"postgres://u:s3cret@h/d\npostgres://u:s3cret@h2/d":                 "name different databases",
		"postgres://u:s3cret@h/d\npostgres://u:s3cret@h/d2":                 "name different databases",
		strings.Repeat("postgres://u:s3cret@h/d?application_name=a\n", 4+1): "at most 4",
	} {
		file := filepath.Join(t.TempDir(), "url")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(file, store.Options{})
		if err == nil {
			_ = s.Close()
			t.Errorf("%q is accepted", text)
		} else if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
