package config

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/backend"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// shelf is a backend with values at some paths.
type shelf map[string]backend.Values

func (shelf) Check(context.Context) error { return nil }

func (s shelf) Read(_ context.Context, path string) (backend.Values, error) {
	if values, ok := s[path]; ok {
		return values, nil
	}
	return nil, backend.ErrNotFound
}

// newcomer is an installation with a service that names places of a backend.
type newcomer struct {
	resolver *Resolver
	reader   *Reader
}

func newNewcomer(t *testing.T, at backend.Backend) *newcomer {
	t.Helper()
	n := &newcomer{resolver: newResolver(t, "sqlite:"+filepath.Join(t.TempDir(), "console.db"))}
	n.reader = &Reader{
		Resolver: n.resolver, ID: "a", Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Open: func(resource.BackendSpec, map[string]string) (backend.Backend, error) { return at, nil },
	}
	by, create, c := catalog.Self("test"), catalog.Expectation{AllowMissing: true}, n.resolver.catalog
	files := resource.Of[resource.BackendSpec]{
		Meta: state.Meta{Name: "files"}, Spec: resource.BackendSpec{Files: &resource.FilesBackend{}},
	}
	_, _, err := catalog.Put(t.Context(), c, by, resource.Backends(), files, create)
	ok(t, err)
	shop := state.Source{
		Meta: state.Meta{Name: "shop"},
		Spec: state.SourceSpec{Git: state.GitSource{URL: "https://git.example.com/shop"}},
	}
	edit, err := catalog.DraftSource(&shop, create)
	ok(t, err)
	_, err = c.PutAll(t.Context(), by, []catalog.Edit{edit}, false)
	ok(t, err)
	_, _, err = c.UpdateCluster(t.Context(), by, state.Cluster{Meta: state.Meta{Name: "edge-1"}}, create)
	ok(t, err)
	return n
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// names has the service take values from a path, and from another entry that refers to the first.
func (n *newcomer) names(t *testing.T, path string) {
	t.Helper()
	refers := "see ${pw}"
	web := state.Service{Meta: state.Meta{Name: "web"}, Spec: state.ServiceSpec{
		Source: "shop", Cluster: "edge-1",
		Config: map[string]state.Setting{
			"pw": {Ref: &state.SettingRef{Backend: "files", Path: path, Key: "pw"}}, "url": {Text: &refers},
		},
	}}
	create := catalog.Expectation{AllowMissing: true}
	_, _, err := n.resolver.catalog.UpdateService(t.Context(), catalog.Self("test"), web, create)
	ok(t, err)
}

// reads lets the backend be read.
func (n *newcomer) reads(t *testing.T) {
	t.Helper()
	ok(t, n.reader.look(t.Context()))
	n.reader.passes.Wait()
}

// told are the events about the configuration of the service, with their messages.
func (n *newcomer) told(t *testing.T) (types, messages []string) {
	t.Helper()
	ok(t, n.resolver.store.Read(t.Context(), func(ctx context.Context, v store.View) error {
		rows, _, err := v.EventsAfter(ctx, store.EventQuery{}, 0, 100)
		for _, row := range rows {
			e, err := event.Decode(row)
			if err != nil {
				return err
			}
			types, messages = append(types, e.GetType()), append(messages, e.GetMessage())
		}
		return err
	}))
	return types, messages
}

func TestANewPathOfABackendIsNoAlarm(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, shelf{"a": {"pw": "hunter2"}, "b": {"pw": "hunter3"}})
	n.names(t, "a")
	if s, err := n.resolver.catalog.GetService(t.Context(), "web"); err != nil || s.Status.ConfigProblem == nil {
		t.Errorf("the status is %+v, %v", s.Status, err)
	}
	n.reads(t)
	n.names(t, "b")
	n.reads(t)
	types, messages := n.told(t)
	for _, alarm := range []string{event.ConfigFailing, event.ConfigRecovered} {
		if slices.Contains(types, alarm) {
			t.Errorf("told %q: %q", types, messages)
		}
	}
	if s, err := n.resolver.catalog.GetService(t.Context(), "web"); err != nil || s.Status.ConfigProblem != nil {
		t.Errorf("the status is %+v, %v", s.Status, err)
	}
}

// hung is a backend that never answers. It is closed when it is asked.
type hung chan struct{}

func (hung) Check(context.Context) error { return nil }

func (h hung) Read(ctx context.Context, _ string) (backend.Values, error) {
	close(h)
	<-ctx.Done()
	return nil, ctx.Err()
}

// A console that stops in the middle of a read knows nothing of the backend: another console reads it at once.
func TestAReadThatAStopCutsShortIsNoAlarm(t *testing.T) {
	t.Parallel()
	asked := make(hung)
	n := newNewcomer(t, asked)
	n.names(t, "a")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ok(t, n.reader.look(ctx))
	<-asked
	stop()
	n.reader.passes.Wait()
	if types, messages := n.told(t); len(types) != 0 {
		t.Errorf("told %q: %q", types, messages)
	}
	ok(t, n.resolver.store.Read(t.Context(), func(ctx context.Context, v store.View) error {
		due, err := v.DueReadings(ctx, time.Now())
		if err == nil && (len(due) != 1 || due[0].Problem != "") {
			t.Errorf("due are %+v", due)
		}
		return err
	}))
}

// The alarm is told when the first read has no value, and ends when another path has one, which is read first, too.
func TestAPathWithoutAValueAlarmsWhenItWasRead(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, shelf{"a": {"pw": "hunter2"}})
	n.names(t, "gone")
	if types, messages := n.told(t); len(types) != 0 {
		t.Fatalf("told %q before the read", messages)
	}
	n.reads(t)
	types, messages := n.told(t)
	const entry = `"pw" (service/web (backend "files", gone)): backend "files", gone does not exist`
	want := `It can't be configured: ` + entry +
		`; "url" (service/web): refers to "pw", which has no value: backend "files", gone does not exist`
	if !slices.Equal(types, []string{event.ConfigFailing}) || messages[0] != want {
		t.Fatalf("told %q: %q, want %q", types, messages, want)
	}
	n.names(t, "a")
	n.reads(t)
	if types, _ := n.told(t); !slices.Equal(types[:2], []string{event.ConfigFailing, event.ConfigRecovered}) {
		t.Errorf("told %q", types)
	}
}

// A set may import any entry from a place that was not read yet.
func TestAnEntryOfAnUnreadImportIsNoAlarm(t *testing.T) {
	t.Parallel()
	const place = `backend "files", a`
	layers := []Layer{
		{Origin: "configset/all", Entries: map[string]Entry{place: {Place: place, Problem: notRead, Unread: true}}},
		{Origin: "service/web", Entries: map[string]Entry{"url": {Type: Text, Value: "see ${pw}"}}},
	}
	if problem, unread := problemOf(Merge(layers, nil)); problem == "" || !unread {
		t.Errorf("unread is %v: %s", unread, problem)
	}
	layers = append(layers, Layer{Origin: "service/web", Entries: map[string]Entry{"x": {Type: Text, Value: "${"}}})
	if problem, unread := problemOf(Merge(layers, nil)); unread {
		t.Errorf("another problem hides: %s", problem)
	}
}
