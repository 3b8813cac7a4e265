package config

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/platform/postgrestest"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/backend"
	"fairlead.dev/services/console/internal/backend/backendtest"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

var postgres postgrestest.Server

func TestMain(m *testing.M) {
	code := m.Run()
	_ = postgres.Stop()
	os.Exit(code)
}

// secrets are those of the catalog, as layers take them, each in a read of its own.
type secrets struct{ *Resolver }

func (s secrets) Check(ctx context.Context) error { return s.store.Ping(ctx) }

func (s secrets) Read(ctx context.Context, path string) (backend.Values, error) {
	l := &loaded{resolver: s.Resolver, places: map[place]content{}}
	if err := s.store.Read(ctx,
		func(ctx context.Context, v store.View) error { return l.loadSecrets(ctx, v, []string{path}) }); err != nil {
		return nil, err
	}
	switch of := l.places[place{path: path}]; {
	case of.problem == absent:
		return nil, backend.ErrNotFound
	case of.problem == backend.ErrTooLarge.Error():
		return nil, backend.ErrTooLarge
	case of.problem != "":
		return nil, errors.New(of.problem)
	default:
		return of.values, nil
	}
}

// newResolver is of an installation of its own.
func newResolver(t *testing.T, url string) *Resolver {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	box, err := seal.Ensure(key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.New(url, store.Options{})
	if err == nil {
		err = s.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	var resolver *Resolver
	catalog.New(authz.New(s,
		nil), catalog.Deps{
		Store: s, Box: box, Log: slog.New(slog.DiscardHandler), Hooks: func(c *catalog.Catalog) []catalog.Hook {
			resolver = New(c, s, box)
			return []catalog.Hook{resolver}
		},
	})
	return resolver
}

func TestSecretsOfTheCatalogKeepTheContractOfBackends(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "console.db"), "PostgreSQL": postgres.Database(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newResolver(t, url)
			backendtest.Run(t, func(*testing.T) backendtest.Subject {
				return backendtest.Subject{
					Backend: secrets{r}, Path: func(name string) string { return strings.ToLower(name) },
					Put: func(ctx context.Context, path string, values backend.Values) error {
						e, err := r.catalog.DraftSecret(resource.Secret{Meta: state.Meta{Name: path}, Data: values},
							catalog.Expectation{AllowMissing: true})
						if err == nil {
							_, err = r.catalog.PutAll(ctx, catalog.Self("test"), []catalog.Edit{e}, false)
						}
						return err
					},
					Remove: func(ctx context.Context, path string) error {
						return catalog.Drop(ctx, r.catalog, catalog.Self("test"), store.KindSecret, path, "")
					},
				}
			})
		})
	}
}
