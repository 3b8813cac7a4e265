package config

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
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
