package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/platform/postgrestest"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/intake"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/database"
	"fairlead.dev/services/console/internal/store/storetest"
)

var postgres postgrestest.Server

func TestMain(m *testing.M) {
	code := m.Run()
	_ = postgres.Stop()
	os.Exit(code)
}

func openStore(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.New(url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// A status that another console writes while this one can't look, for however long, is not missed.
func TestStatusesOfLongAgoAreTakenIn(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	box, err := seal.Ensure(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, url)
	c := catalog.New(authz.New(s, nil), catalog.Deps{Store: s, Box: box, Log: slog.New(slog.DiscardHandler)})
	cluster, _, err := c.UpdateCluster(t.Context(), catalog.Self("test"), state.Cluster{Meta: state.Meta{Name: "edge-1"}}, catalog.Expectation{AllowMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	uid := cluster.Meta.UID
	if err := s.PutSeen(t.Context(), map[string]store.Seen{uid: {SeenTime: time.Now(), State: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "UPDATE seen SET touch_time = touch_time - $1", (4 * database.MaxWrite).Microseconds()); err != nil {
		t.Fatal(err)
	}
	b := New(Deps{Store: s, Kinds: testKinds(), Loader: state.NewLoader(nil), Log: slog.New(slog.DiscardHandler)})
	b.byUID[uid] = &row{kind: store.KindCluster, name: "edge-1", uid: uid}
	b.looked = b.Now().Add(-4 * database.MaxWrite)
	b.look(t.Context())
	if at := (store.Ref{Kind: store.KindCluster, Name: "edge-1"}); !b.later[at] {
		t.Errorf("to be read anew are %v", b.later)
	}
}

// What this console wrote is not read anew when the board looks for what other consoles wrote; a later write of another
// console is.
func TestTheBoardReadsItsOwnWritesOnce(t *testing.T) {
	t.Parallel()
	url := postgres.Database(t)
	s, other := openStore(t, url), openStore(t, url)
	c := catalog.New(authz.New(s, nil), catalog.Deps{Store: s, Log: slog.New(slog.DiscardHandler)})
	cluster, _, err := c.UpdateCluster(t.Context(), catalog.Self("test"), state.Cluster{Meta: state.Meta{Name: "edge-1"}}, catalog.Expectation{AllowMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	b := New(Deps{Store: s, Kinds: testKinds(), Loader: state.NewLoader(nil), Log: slog.New(slog.DiscardHandler)})
	b.looked = b.Now()
	const service = "00000000-0000-7000-8000-000000000001"
	at := store.Ref{Kind: store.KindService, Name: "web"}
	b.byUID[service] = &row{kind: at.Kind, name: at.Name, uid: service}
	say := func(s *store.Store, sequence int64) {
		t.Helper()
		if _, err := s.PutReports(t.Context(), []store.Report{{Service: service, Cluster: cluster.Meta.UID, Sequence: sequence, State: []byte("{}")}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	say(s, 1)
	if b.takeTouched(); !b.later[at] {
		t.Fatal("the console's own report is not read")
	}
	delete(b.later, at) // as once it is read
	if b.look(t.Context()); b.later[at] {
		t.Error("the console's own report is read again")
	}
	say(other, 2)
	if b.look(t.Context()); !b.later[at] {
		t.Error("the report of another console is not read")
	}
}

// The board begins with the states that it would have if it had read each service as it is shown.
func TestBoardBeginsWithTheStatesThatAreShown(t *testing.T) {
	t.Parallel()
	box, err := seal.Ensure(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	s := storetest.SQLite(t)
	log := slog.New(slog.DiscardHandler)
	c := catalog.New(authz.New(s, nil), catalog.Deps{Store: s, Box: box, Log: log})
	seedStates(t, s, c)
	hub := feed.New(s, log)
	b := New(Deps{Store: s, Kinds: testKinds(), Loader: state.NewLoader(nil), Hub: hub, Log: log})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = hub.Run(ctx) })
	running.Go(func() { _ = b.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	if err := b.current(t.Context()); err != nil {
		t.Fatal(err)
	}
	states := map[string]bool{}
	err = s.Read(t.Context(), func(ctx context.Context, v store.View) error {
		shown, err := b.load(ctx, v, store.KindService, serviceNames())
		for _, want := range shown {
			b.mu.RLock()
			got := b.rows[store.KindService][want.row.name]
			b.mu.RUnlock()
			states[got.state.Value()] = true
			if got.essence == nil || *got.essence != *want.row.essence || got.state != want.row.state || got.since != want.row.since {
				t.Errorf("%s is %s since %d, and shown as %s since %d", got.name, got.state.Value(), got.since, want.row.state.Value(), want.row.since)
			}
		}
		return err
	})
	if err != nil || len(states) < 4 {
		t.Fatal("states", states, err)
	}
}

func serviceNames() []string {
	return []string{"away", "failed", "healthy", "nothing", "pinned", "told", "waits"}
}

// seedStates writes services that differ in what Git, hub and cluster say of them.
func seedStates(t *testing.T, s *store.Store, c *catalog.Catalog) {
	t.Helper()
	in := intake.New(intake.Deps{Store: s, Catalog: c, Log: slog.New(slog.DiscardHandler)})
	by, missing := catalog.Self("test"), catalog.Expectation{AllowMissing: true}
	source := state.Source{Meta: state.Meta{Name: "shop"}, Spec: state.SourceSpec{Git: state.GitSource{URL: "https://git.example.com/shop"}}}
	e, err := catalog.DraftSource(&source, missing)
	if err != nil {
		t.Fatal(err)
	}
	if source, _, err = catalog.PutOne(t.Context(), c, by, e, c.Sources); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"edge", "gone"} {
		if _, _, err := c.UpdateCluster(t.Context(), by, state.Cluster{Meta: state.Meta{Name: name}}, missing); err != nil {
			t.Fatal(err)
		}
	}
	claimed, err := in.ClaimSource(t.Context(), "test", "shop", source.Meta.UID, "me")
	if err != nil {
		t.Fatal(err)
	}
	head := state.Revision{Commit: strings.Repeat("a", 40)}
	if err := in.PublishHeads(t.Context(), "test", "shop", source.Meta.UID, intake.Publication{
		Epoch: claimed.Epoch, Heads: []state.Head{{Ref: "refs/heads/main", Revision: head, FetchTime: time.Now()}},
	}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := in.RecordSeen(t.Context(), []intake.ClusterSeen{{Cluster: "edge", Time: now}, {Cluster: "gone", Time: now.Add(-time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	reports := map[string]state.Phase{"healthy": state.PhaseHealthy, "failed": state.PhaseFailed, "away": state.PhaseHealthy, "pinned": state.PhaseHealthy}
	for _, name := range serviceNames() {
		service := state.Service{
			Meta: state.Meta{Name: name},
			Spec: state.ServiceSpec{Source: "shop", Ref: "main", Cluster: "edge", Path: "apps"},
		}
		switch name {
		case "away":
			service.Spec.Cluster = "gone"
		case "pinned":
			service.Spec.Sync = json.RawMessage(`{"pin":"0123456789012345678901234567890123456789"}`)
		}
		s, _, err := c.UpdateService(t.Context(), by, service, missing)
		if err != nil {
			t.Fatal(err)
		}
		if name == "nothing" {
			continue
		}
		truth := state.HubTruth{Digest: "d", Revision: head, ResolveTime: now}
		if name == "waits" {
			truth = state.HubTruth{Problem: &state.Problem{Message: "no such folder", Since: now}}
		}
		if err := in.RecordHub(t.Context(), []intake.ServiceHub{{Service: name, UID: s.Meta.UID, Hub: truth}}, nil); err != nil {
			t.Fatal(err)
		}
		if phase := reports[name]; phase != "" {
			report := state.Report{Service: name, Sequence: 1, Phase: phase, Digest: "d", AppliedDigest: "d", Commit: head.Commit, ObservedTime: now.Add(-time.Minute)}
			if _, err := in.RecordReports(t.Context(), []intake.ClusterReports{{Cluster: service.Spec.Cluster, Reports: []state.Report{report}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A console that has just begun says so.
func TestListsSayThatTheBoardBegins(t *testing.T) {
	t.Parallel()
	s := storetest.SQLite(t)
	if err := New(Deps{Store: s, Log: slog.New(slog.DiscardHandler)}).current(t.Context()); !errors.Is(err, ErrBegins) {
		t.Errorf("the list failed with %v", err)
	}
}
