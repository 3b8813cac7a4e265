package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fairlead.dev/platform/subprocess"
	"fairlead.dev/services/console/internal/store"
)

// migrateURL makes this test binary migrate a database and end: a process to kill.
const migrateURL = "FAIRLEAD_TEST_MIGRATE_URL"

func migrateOnly(url string) error {
	s, err := store.New(url, store.Options{})
	if err != nil {
		return err
	}
	return errors.Join(s.Migrate(context.Background()), s.Close())
}

// schema is all that migrations make, and which of them are noted.
func schema(t *testing.T, db *sql.DB, queries ...string) string {
	t.Helper()
	var out strings.Builder
	for _, query := range queries {
		rows, err := db.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		for rows.Next() {
			var text sql.NullString
			if err := rows.Scan(&text); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&out, text.String)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func sqliteSchema(t *testing.T, s *store.Store) string {
	t.Helper()
	write := s.Databases()["catalog"]
	return schema(t, write, "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_master ORDER BY type, name", "SELECT version_id FROM goose_db_version ORDER BY version_id")
}

// TestSQLiteIsWholeAfterAKillInsideItsMigrations kills the process that migrates at one write after the other.
func TestSQLiteIsWholeAfterAKillInsideItsMigrations(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("a kill inside a migration of SQLite needs strace: run tools/install.sh")
	}
	file := func() string { return filepath.Join(t.TempDir(), "console.db") }
	want := sqliteSchema(t, opener(t, "sqlite:"+file())(store.Options{}))
	kills := 0
	const writes = "pwrite64,fsync,fdatasync,ftruncate" // of one thread: strace counts for each
	for at := 1; ; at += 1 + at/4 {
		name := file()
		child := exec.CommandContext(t.Context(), "strace", "--follow-forks", "--quiet=all", "--output=/dev/null", "--trace="+writes,
			fmt.Sprintf("--inject="+writes+":signal=SIGKILL:when=%d", at), os.Args[0])
		child.Env = append(os.Environ(), migrateURL+"=sqlite:"+name, "GOMAXPROCS=1")
		out, err := child.CombinedOutput()
		if err == nil {
			break // the child ended before that write
		}
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) ||
			exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Skipf("strace can't kill here: %v: %s", err, out)
		}
		kills++
		if got := sqliteSchema(t, opener(t, "sqlite:"+name)(store.Options{})); got != want {
			t.Errorf("killed at write %d, and migrated again:\n%s\nwant\n%s", at, got, want)
		}
	}
	if kills < 5 {
		t.Errorf("only %d kills", kills)
	}
	t.Logf("%d kills", kills)
}

func postgresSchema(t *testing.T, s *store.Store) string {
	t.Helper()
	write := s.Databases()["catalog"]
	return schema(t, write,
		`SELECT table_name || ' ' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '') FROM information_schema.columns
			WHERE table_schema = 'public' ORDER BY table_name, column_name`,
		"SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexdef",
		"SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1",
		"SELECT version_id FROM goose_db_version ORDER BY version_id")
}

// gate stops the statement of a number that changes the schema, until the gate's connection lets go of its lock.
const gate = `
CREATE SCHEMA gate;
CREATE SEQUENCE gate.statements;
CREATE FUNCTION gate.stop() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
	IF nextval('gate.statements') = %d THEN PERFORM pg_advisory_lock(99); PERFORM pg_advisory_unlock(99); END IF;
END $$;
CREATE EVENT TRIGGER gate ON ddl_command_end EXECUTE FUNCTION gate.stop();
`

// TestPostgresIsWholeAfterAKillInsideItsMigrations kills the process that migrates within one statement after the
// other, and has the next one begin while the server still works for the dead one.
func TestPostgresIsWholeAfterAKillInsideItsMigrations(t *testing.T) {
	t.Parallel()
	server := newServer(t, "")
	want := postgresSchema(t, opener(t, server.Database(t))(store.Options{}))
	kills := 0
	for at := 1; ; at += 1 + at/3 {
		url := server.Database(t)
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{fmt.Sprintf(gate, at), "SELECT pg_advisory_lock(99)"} {
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), migrateURL+"="+url)
		child, err := subprocess.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		stopped := atGate(t, conn, child)
		child.Kill()
		next := make(chan error, 1)
		go func() { next <- migrateOnly(url) }()
		if err := conn.Close(t.Context()); err != nil { // which opens the gate
			t.Fatal(err)
		}
		if err := <-next; err != nil {
			t.Fatalf("killed at statement %d: %v", at, err)
		}
		if !stopped {
			break // there is no such statement
		}
		kills++
		s, err := store.New(url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := postgresSchema(t, s); got != want {
			t.Errorf("killed at statement %d, and migrated again:\n%s\nwant\n%s", at, got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if kills < 5 {
		t.Errorf("only %d kills", kills)
	}
	t.Logf("%d kills", kills)
}

// atGate waits until a process stands at the gate, or has ended without.
func atGate(t *testing.T, conn *pgx.Conn, child *subprocess.Process) bool {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var waits bool
		err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 99 AND NOT granted)").Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		if waits {
			return true
		}
		select {
		case <-child.Ended():
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			return false
		case <-tick.C:
		}
	}
}
