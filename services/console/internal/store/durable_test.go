package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"fairlead.dev/platform/postgrestest"
	"fairlead.dev/services/console/internal/store"
)

// loadUntilGone writes with several writers until the database is gone, which gone makes it in the middle of that, and
// returns the writes that were acknowledged before gone began. A loss of power ends the process with the disk, but gone
// takes a millisecond in which the process lives on: a sync that ext4 has under way then returns without an error
// although its journal was just aborted, so that an acknowledgement of that millisecond proves nothing, and would reach
// nobody.
func loadUntilGone(t *testing.T, s *store.Store, round int, gone func()) []string {
	t.Helper()
	var (
		mu             sync.Mutex
		acknowledged   []string // guarded by mu
		wg             sync.WaitGroup
		enough, ending = make(chan struct{}), make(chan struct{})
	)
	end := sync.OnceFunc(func() { close(enough) })
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("c%d-%d-%d", round, w, i)
				err := s.Write(t.Context(), "user:ada", func(ctx context.Context, tx *store.Tx) error {
					_, err := tx.Create(ctx, store.Draft{
						Kind: store.KindCluster, Name: name,
						Spec: []byte(`{"description":"` + name + `"}`),
					})
					return err
				})
				if err == nil {
					mu.Lock()
					if acknowledged = append(acknowledged, name); len(acknowledged) == 200 {
						end()
					}
					mu.Unlock()
					continue
				}
				select {
				case <-ending:
					return // a database may say anything at its end
				default:
				}
				if !errors.Is(err, store.ErrUnavailable) { // on a busy machine a write may wait for too long
					t.Errorf("write of %s: %v", name, err)
					end()
					return
				}
			}
		})
	}
	<-enough
	mu.Lock()
	kept := slices.Clone(acknowledged)
	mu.Unlock()
	close(ending)
	gone()
	wg.Wait()
	return kept
}

// wantKept fails unless all of it is there, whole.
func wantKept(t *testing.T, s *store.Store, acknowledged []string) {
	t.Helper()
	var lost int
	read := func(ctx context.Context, v store.View) error {
		lost = 0
		for _, name := range acknowledged {
			ref := store.Ref{Kind: store.KindCluster, Name: name}
			is, err := v.Get(ctx, ref.Kind, name)
			if errors.Is(err, store.ErrNotFound) {
				lost++
				continue
			}
			past, err2 := v.History(ctx, ref, 0, 10)
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			if want := `{"description":"` + name + `"}`; string(is.Spec) != want || len(past) != 1 ||
				string(past[0].Spec) != want {
				t.Errorf("%s: %s, history %v", name, is.Spec, past)
			}
		}
		return nil
	}
	err := s.Read(t.Context(), read)
	for tries := 1; errors.Is(err, store.ErrUnavailable) && tries < 100; tries++ { // with a connection of before
		err = s.Read(t.Context(), read)
	}
	if err != nil {
		t.Fatal(err)
	}
	if lost > 0 {
		t.Errorf("%d of %d writes that were acknowledged are lost", lost, len(acknowledged))
	}
}

func newServer(t *testing.T, dir string) *postgrestest.Server {
	t.Helper()
	server := &postgrestest.Server{Dir: dir}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func TestCrashOfPostgresKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	server := newServer(t, "")
	s := opener(t, server.Database(t))(store.Options{})
	var acknowledged []string
	for round := range 3 {
		acknowledged = append(acknowledged, loadUntilGone(t, s, round, func() { server.Kill(t) })...)
		if err := s.Ping(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("database is down: %v", err)
		}
		server.Restart(t)
		wantKept(t, s, acknowledged)
	}
}

// disk is a file system of its own, whose power fails.
type disk struct{ dir, image string }

func newDisk(t *testing.T) *disk {
	t.Helper()
	dir, err := os.MkdirTemp("", "disk") //nolint:usetesting // Unix sockets have short names, and PostgreSQL's user has to get there
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{dir, filepath.Join(t.TempDir(), "image")}
	if err := errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, 512<<20)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		t.Skipf("a file system can't be made here: %v: %s", err, out)
	}
	if out, err := d.mount(); err != nil {
		t.Skipf("a file system can't be mounted here (that takes root): %v: %s", err, out)
	}
	t.Cleanup(func() {
		d.unmount(t)
		if err := os.Remove(d.dir); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *disk) mount() (out []byte, err error) {
	return exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput()
}

// fail is a power loss: what was not synced is nowhere.
func (d *disk) fail(t *testing.T) {
	t.Helper()
	const shutdown, noLogFlush = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH
	f, err := os.Open(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdown, noLogFlush); err != nil {
		t.Fatalf("shut the file system down: %v", err)
	}
}

// unmount waits until those who had the disk open have ended.
func (d *disk) unmount(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		err := syscall.Unmount(d.dir, 0)
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			t.Fatalf("unmount: %v", err)
		}
	}
}

// back mounts the disk again, with what is on it.
func (d *disk) back(t *testing.T) {
	t.Helper()
	d.unmount(t)
	if out, err := d.mount(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
}

func TestPowerLossKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		d := newDisk(t)
		var acknowledged []string
		for round := range 3 {
			s, err := store.New("sqlite:"+filepath.Join(d.dir, "console.db"), store.Options{})
			if err == nil {
				err = s.Migrate(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			wantKept(t, s, acknowledged)
			acknowledged = append(acknowledged, loadUntilGone(t, s, round, func() { d.fail(t) })...)
			_ = s.Close() // of what is on no disk any more
			d.back(t)
		}
		wantKept(t, opener(t, "sqlite:"+filepath.Join(d.dir, "console.db"))(store.Options{}), acknowledged)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		d := newDisk(t)
		server := newServer(t, d.dir)
		s := opener(t, server.Database(t))(store.Options{})
		syscall.Sync() // initdb syncs nothing here
		var acknowledged []string
		for round := range 3 {
			acknowledged = append(acknowledged, loadUntilGone(t, s, round, func() { d.fail(t) })...)
			server.Kill(t)
			d.back(t)
			server.Restart(t)
			wantKept(t, s, acknowledged)
		}
	})
}

// Where no power can fail, settings speak for it: in a WAL, FULL syncs each commit before it returns.
func TestSQLiteSyncsEachCommitOnEveryConnection(t *testing.T) {
	t.Parallel()
	s := opener(t, "sqlite:"+filepath.Join(t.TempDir(), "console.db"))(store.Options{})
	for pool, db := range s.Databases() {
		for range db.Stats().MaxOpenConnections { // all at once, so each is another one
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			got := map[string]string{}
			for _, pragma := range []string{"journal_mode", "synchronous", "query_only"} {
				var value string
				if err := conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&value); err != nil {
					t.Fatal(err)
				}
				got[pragma] = value
			}
			want := map[string]string{"journal_mode": "wal", "synchronous": "2", "query_only": "0"}
			if pool == "catalog_read" {
				want["query_only"] = "1"
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s: %v, want %v", pool, got, want)
			}
		}
	}
}

func TestPostgresThatDoesNotKeepCommitsIsRefused(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, url, setting string) {
		t.Helper()
		s, err := store.New(url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Migrate(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "PostgreSQL has "+setting+
				" = off: a write that was acknowledged could be lost. Set it to on") {
			t.Errorf("got %v", err)
		}
	}
	t.Run("by the URL", func(t *testing.T) {
		t.Parallel()
		refused(t, postgres.Database(t)+"&synchronous_commit=off", "synchronous_commit")
	})
	t.Run("by the role", func(t *testing.T) {
		t.Parallel()
		url := postgres.Database(t)
		order(t, url, "DROP ROLE IF EXISTS careless", "CREATE ROLE careless SUPERUSER LOGIN",
			"ALTER ROLE careless SET synchronous_commit = off")
		refused(t, strings.Replace(url, "postgres@", "careless@", 1), "synchronous_commit")
	})
	t.Run("by the database", func(t *testing.T) {
		t.Parallel()
		url := postgres.Database(t)
		order(t, url, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$")
		refused(t, url, "synchronous_commit")
	})
	t.Run("by the server", func(t *testing.T) {
		t.Parallel()
		server := newServer(t, "")
		url := server.Database(t)
		for _, setting := range []string{"synchronous_commit", "fsync"} {
			order(t, url, "ALTER SYSTEM SET "+setting+" = off")
			server.Restart(t)
			refused(t, url, setting)
			order(t, url, "ALTER SYSTEM RESET "+setting)
		}
	})
}

// order has a server do something.
func order(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
