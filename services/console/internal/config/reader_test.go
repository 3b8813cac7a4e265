package config

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/services/console/internal/backend"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// empty is a backend with nothing in it.
type empty struct{}

func (empty) Check(context.Context) error { return nil }

func (empty) Read(context.Context, string) (backend.Values, error) { return nil, backend.ErrNotFound }

// A connection has a login in it: it goes with its backend.
func TestConnectionsGoWithTheirBackends(t *testing.T) {
	t.Parallel()
	resolver := newResolver(t, "sqlite:"+filepath.Join(t.TempDir(), "console.db"))
	r := &Reader{
		Resolver: resolver, ID: "a", Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Open: func(resource.BackendSpec, map[string]string) (backend.Backend, error) { return empty{}, nil },
	}
	in := resource.Of[resource.BackendSpec]{
		Meta: state.Meta{Name: "files"}, Spec: resource.BackendSpec{Files: &resource.FilesBackend{}},
	}
	if _, _, err := catalog.Put(t.Context(), resolver.catalog, catalog.Self("test"), resource.Backends(), in,
		catalog.Expectation{AllowMissing: true}); err != nil {
		t.Fatal(err)
	}
	if err := r.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.passes.Wait()
	if n := len(r.connected()); n != 1 {
		t.Fatalf("%d connections", n)
	}
	if err := catalog.Drop(t.Context(), resolver.catalog, catalog.Self("test"), store.KindBackend, "files",
		""); err != nil {
		t.Fatal(err)
	}
	if err := r.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(r.connected()); n != 0 {
		t.Errorf("%d connections after the backend went", n)
	}
}

// slow is a shelf with a path that hangs. When the reading of it ends, another write takes its time in the database.
type slow struct {
	shelf
	store *store.Store
}

func (s *slow) Read(ctx context.Context, path string) (backend.Values, error) {
	if path != "hung" {
		return s.shelf.Read(ctx, path)
	}
	<-ctx.Done()
	begun := make(chan struct{})
	go func() {
		_ = s.store.Write(context.WithoutCancel(ctx), "test", func(context.Context, *store.Tx) error {
			close(begun)
			<-time.After(2 * noteTimeout)
			return nil
		})
	}()
	<-begun
	return nil, ctx.Err()
}

// Only a console that stops is short of time.
func TestASlowDatabaseGivesOutWhatWasRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := &slow{shelf: shelf{"a": {"pw": "hunter2"}}}
		n := newNewcomer(t, at)
		at.store = n.resolver.store
		n.service(t, "web", "a")
		n.service(t, "api", "hung")
		n.reads(t)
		for name, problem := range map[string]bool{"web": false, "api": true} {
			s, err := n.resolver.catalog.GetService(t.Context(), name)
			if err != nil || (s.Status.ConfigProblem != nil) != problem {
				t.Errorf("the problem of %s is %+v, %v", name, s.Status.ConfigProblem, err)
			}
		}
	})
}

// problem is why the backend can't be read, as its status says.
func (n *newcomer) problem(t *testing.T) (problem string) {
	t.Helper()
	ok(t, n.resolver.store.Read(t.Context(), func(ctx context.Context, v store.View) error {
		row, err := v.Get(ctx, store.KindBackend, "files")
		if err != nil {
			return err
		}
		readings, err := v.Readings(ctx, []string{row.UID})
		problem = readings[row.UID].Problem
		return err
	}))
	return problem
}

func TestABackendSaysWhyItsValuesAreNotGivenOut(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, shelf{"a": {"pw": "hunter2"}})
	n.names(t, "a")
	ok(t, n.resolver.store.Write(t.Context(), "test", func(ctx context.Context, tx *store.Tx) error {
		return tx.PutConfigKey(ctx, []byte("damaged"))
	}))
	n.reads(t)
	if problem := n.problem(t); !strings.Contains(problem, "open key of configurations") {
		t.Errorf("the problem is %q", problem)
	}
}
