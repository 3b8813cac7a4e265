package config

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/backend"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/places"
)

// damage makes the kept values of a service unreadable, and returns what a distributor asks for.
func (n *newcomer) damage(t *testing.T, service string, sealed []byte) Wanted {
	t.Helper()
	var wanted Wanted
	ok(t, n.resolver.store.Write(t.Context(), "test", func(ctx context.Context, tx *store.Tx) error {
		row, err := tx.Get(ctx, store.KindService, service)
		if err != nil {
			return err
		}
		kept, err := tx.Configs(ctx, []string{row.UID})
		if err != nil {
			return err
		}
		c := kept[row.UID]
		if wanted = (Wanted{row.UID, c.Revision}); sealed == nil {
			return nil
		}
		c.Sealed = sealed
		return tx.PutConfigs(ctx, []store.ServiceConfig{{Service: row, Config: c}})
	}))
	return wanted
}

// damagePlace makes unreadable what is kept of a path of the backend.
func (n *newcomer) damagePlace(t *testing.T, path string) {
	t.Helper()
	ok(t, n.resolver.store.Write(t.Context(), "test", func(ctx context.Context, tx *store.Tx) error {
		row, err := tx.Get(ctx, store.KindBackend, "files")
		if err != nil {
			return err
		}
		kept, err := tx.Places(ctx, row.UID, []string{path})
		p := kept[path]
		p.Sealed = []byte("damaged")
		if err != nil {
			return err
		}
		return tx.PutPlaces(ctx, []places.Place{p})
	}))
}

// service has configuration from paths of the backend.
func (n *newcomer) service(t *testing.T, name string, paths ...string) {
	t.Helper()
	s := state.Service{Meta: state.Meta{Name: name}, Spec: state.ServiceSpec{
		Source: "shop", Cluster: "edge-1", Path: name, Config: map[string]state.Setting{},
	}}
	for i, path := range paths {
		s.Spec.Config[fmt.Sprint("pw", i)] = state.Setting{
			Ref: &state.SettingRef{Backend: "files", Path: path, Key: "pw"},
		}
	}
	create := catalog.Expectation{AllowMissing: true}
	_, _, err := n.resolver.catalog.UpdateService(t.Context(), catalog.Self("test"), s, create)
	ok(t, err)
}

// access returns the values that a distributor gets, by service.
func (n *newcomer) access(t *testing.T, wanted ...Wanted) map[string]string {
	t.Helper()
	list, failed, err := n.resolver.Access(t.Context(), wanted)
	ok(t, errors.Join(failed, err))
	got := map[string]string{}
	for _, v := range list {
		got[v.Name] = v.Values[0].Value
	}
	return got
}

// A damaged row must not keep the other services of a cluster from their configuration.
func TestADamagedConfigurationIsComputedAgain(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, shelf{"a": {"pw": "hunter2"}, "b": {"pw": "hunter3"}})
	n.service(t, "web", "a")
	n.service(t, "api", "b")
	n.reads(t)
	wanted := []Wanted{n.damage(t, "web", []byte("damaged")), n.damage(t, "api", nil)}
	for range 2 {
		if got := n.access(t, wanted...); len(got) != 2 || got["web"] != "hunter2" || got["api"] != "hunter3" {
			t.Errorf("got %q", got)
		}
	}
	if types, messages := n.told(t); len(types) > 0 {
		t.Errorf("told %q: %q", types, messages)
	}
}

func TestADamagedConfigurationThatCanNotBeComputedIsAProblemOfItsService(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, shelf{"a": {"pw": "hunter2"}, "b": {"pw": "hunter3"}})
	n.service(t, "web", "a")
	n.service(t, "api", "b")
	n.reads(t)
	wanted := []Wanted{n.damage(t, "web", []byte("damaged")), n.damage(t, "api", nil)}
	n.damagePlace(t, "a")
	for range 2 {
		if got := n.access(t, wanted...); len(got) != 1 || got["api"] != "hunter3" {
			t.Errorf("got %q", got)
		}
	}
	if types, messages := n.told(t); len(types) != 1 || types[0] != event.ConfigFailing ||
		!strings.Contains(messages[0], `backend "files", a `+unreadablePlace) {
		t.Errorf("told %q: %q", types, messages)
	}
}

// gaps is a shelf with paths that can't be read.
type gaps struct {
	shelf
	away map[string]bool
}

func (g gaps) Read(ctx context.Context, path string) (backend.Values, error) {
	if g.away[path] {
		return nil, errors.New("is away")
	}
	return g.shelf.Read(ctx, path)
}

// readsAgain lets the backend be read that is not due yet.
func (n *newcomer) readsAgain(t *testing.T) {
	t.Helper()
	n.reader.Now = func() time.Time { return time.Now().Add(time.Hour) }
	n.reads(t)
}

// waits checks why a service can't be configured; empty: it can.
func (n *newcomer) waits(t *testing.T, service, want string) {
	t.Helper()
	s, err := n.resolver.catalog.GetService(t.Context(), service)
	ok(t, err)
	got := ""
	if s.Status.ConfigProblem != nil {
		got = s.Status.ConfigProblem.Message
	}
	if (got == "") != (want == "") || !strings.Contains(got, want) {
		t.Errorf("the problem of %s is %q, want %q", service, got, want)
	}
}

// A damaged row must not keep others from what they write and from what was read.
func TestADamagedPlaceIsAProblemOfItsServices(t *testing.T) {
	t.Parallel()
	at := gaps{shelf{"a": {"pw": "hunter2"}, "b": {"pw": "hunter3"}}, map[string]bool{}}
	n := newNewcomer(t, at)
	n.service(t, "web", "a", "b")
	n.service(t, "api", "b")
	n.reads(t)
	n.damagePlace(t, "a")
	n.service(t, "web", "a", "b", "a")
	n.waits(t, "web", `backend "files", a `+unreadablePlace)
	at.shelf["b"], at.away["a"] = backend.Values{"pw": "hunter4"}, true
	n.readsAgain(t)
	n.waits(t, "web", `backend "files", a is away`)
	if got := n.access(t, n.damage(t, "api", nil)); got["api"] != "hunter4" {
		t.Errorf("got %q", got)
	}
	at.away["a"] = false
	n.readsAgain(t)
	n.waits(t, "web", "")
	if got := n.access(t, n.damage(t, "web", nil)); got["web"] != "hunter2" {
		t.Errorf("got %q", got)
	}
}

// login has the backend be read with a Secret, and writes the Secret.
func (n *newcomer) login(t *testing.T) {
	t.Helper()
	c, by, create := n.resolver.catalog, catalog.Self("test"), catalog.Expectation{AllowMissing: true}
	edit, err := c.DraftSecret(resource.Secret{
		Meta: state.Meta{Name: "login"}, Data: map[string]string{"identity": "x"},
	}, create)
	ok(t, err)
	_, err = c.PutAll(t.Context(), by, []catalog.Edit{edit}, false)
	ok(t, err)
	_, _, err = catalog.Put(t.Context(), c, by, resource.Backends(), resource.Of[resource.BackendSpec]{
		Meta: state.Meta{Name: "files"}, Spec: resource.BackendSpec{Files: &resource.FilesBackend{Secret: "login"}},
	}, create)
	ok(t, err)
}

// A backend that nobody can log in to says so, and is away: services keep what they have.
func TestADamagedLoginIsAProblemOfItsBackend(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, shelf{"a": {"pw": "hunter2"}, "b": {"pw": "hunter3"}})
	n.login(t)
	n.service(t, "web", "a")
	n.reads(t)
	ok(t, n.resolver.store.RenewSealed(t.Context(), func(v store.Sealed) ([]byte, error) {
		if v.Kind == store.KindSecret {
			return []byte("damaged"), nil
		}
		return nil, nil
	}))
	n.service(t, "api", "b")
	n.readsAgain(t)
	want := errLogin.Error()
	if problem := n.problem(t); problem != want {
		t.Errorf("the problem is %q, want %q", problem, want)
	}
	spec := resource.BackendSpec{Files: &resource.FilesBackend{Secret: "login"}}
	if _, problem, err := n.resolver.Check(t.Context(), n.reader.Open, spec, ""); err != nil || problem == nil ||
		problem.Error() != want {
		t.Errorf("a check says %v, %v, want %q", problem, err, want)
	}
	n.waits(t, "web", "")
	n.waits(t, "api", want)
	n.login(t)
	n.readsAgain(t)
	n.waits(t, "api", "")
	if problem := n.problem(t); problem != "" {
		t.Errorf("the problem is %q when the login was written anew", problem)
	}
}
