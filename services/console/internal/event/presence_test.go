package event

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/index"
	"fairlead.dev/services/console/internal/intake"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// fleet is a database with clusters, and a clock that its consoles share.
type fleet struct {
	*testing.T
	url   string
	now   atomic.Int64 // microseconds
	store *store.Store // of no console
}

func newFleet(t *testing.T, url string, clusters ...string) *fleet {
	t.Helper()
	f := &fleet{T: t, url: url}
	f.now.Store(time.Now().UnixMicro())
	f.store = f.open()
	f.ok(f.store.Migrate(t.Context()))
	box, err := seal.Ensure(filepath.Join(t.TempDir(), "master.key"))
	f.ok(err)
	c := catalog.New(authz.New(f.store, nil), catalog.Deps{Store: f.store, Box: box, Log: slog.New(slog.DiscardHandler), Now: f.clock})
	by := catalog.By{
		Identity: identity.Identity{Kind: identity.KindUser, Name: "ada", Groups: []string{identity.AdminsGroup}},
		Subject:  "user:ada",
	}
	for _, name := range clusters {
		_, _, err := c.UpdateCluster(t.Context(), by, state.Cluster{Meta: state.Meta{Name: name}}, upsert())
		f.ok(err)
	}
	return f
}

func (f *fleet) clock() time.Time { return time.UnixMicro(f.now.Load()) }

func (f *fleet) pass(d time.Duration) { f.now.Add(d.Microseconds()) }

func (f *fleet) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) open() *store.Store {
	f.Helper()
	s, err := store.New(f.url, store.Options{Now: f.clock})
	f.ok(err)
	f.Cleanup(func() { _ = s.Close() })
	return s
}

// seen records a sign of life of a cluster, as a console does that is given its store.
func (f *fleet) seen(s *store.Store, cluster string) {
	f.Helper()
	in := intake.New(intake.Deps{Store: s, Log: slog.New(slog.DiscardHandler), Now: f.clock})
	f.ok(in.RecordSeen(f.Context(), []intake.ClusterSeen{{Cluster: cluster, Time: f.clock()}}))
}

// board is one of a console.
type board struct {
	*index.Index
	fleet *fleet
	store *store.Store
	stop  func()
}

func (f *fleet) start() board {
	f.Helper()
	log, s := slog.New(slog.DiscardHandler), f.open()
	changes := feed.New(s, log)
	b := board{fleet: f, store: s, Index: index.New(index.Deps{
		Store: s, Hub: changes, Viewer: seesAll{}, Loader: state.NewLoader(f.clock), Log: log, Now: f.clock,
		Presence: &Recorder{Store: s, Log: log, Now: f.clock},
		Kinds: descriptor.Table{
			descriptor.Of[state.Cluster, *consolev1.Cluster]{Kind: store.KindCluster, Load: state.Loader.Clusters},
		},
	})}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = changes.Run(ctx) })
	running.Go(func() { _ = b.Run(ctx) })
	b.stop = func() {
		cancel()
		running.Wait()
	}
	f.Cleanup(b.stop)
	return b
}

// shows waits until the board shows so many clusters as connected.
func (b board) shows(connected int) {
	b.fleet.Helper()
	await.NoError(b.fleet, "the board has caught up", func() error {
		counts, known := b.Agents()
		if !known || counts["connected"] != connected {
			return fmt.Errorf("connected are %v, which is known: %v", counts, known)
		}
		return nil
	})
}

// told are the events about clusters.
func (f *fleet) told() string {
	f.Helper()
	var told []string
	f.ok(f.store.Read(f.Context(), func(ctx context.Context, v store.View) error {
		list, _, err := v.EventsAfter(ctx, store.EventQuery{}, 0, 100)
		for _, e := range list {
			told = append(told, e.Cluster+" "+e.Type)
		}
		return err
	}))
	return strings.Join(told, ", ")
}

// tells waits for all events there should be.
func (f *fleet) tells(want ...string) {
	f.Helper()
	await.NoError(f, "the boards have told it", func() error {
		if got := f.told(); got != strings.Join(want, ", ") {
			return fmt.Errorf("told is %q, want %q", got, want)
		}
		return nil
	})
}

// A cluster whose agent is silent is lost once, whichever console sees it, and comes back once.
func TestALostClusterIsToldOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, postgres.Database(t), "edge-1")
	boards := []board{f.start(), f.start()}
	f.seen(boards[0].store, "edge-1")
	all := func(connected int) {
		for _, b := range boards {
			b.shows(connected)
		}
	}
	all(1)
	f.pass(time.Hour)
	all(0)
	f.tells("edge-1 cluster.lost")
	// A third console tells nothing that was told, and knows since when the agent was silent.
	boards = append(boards, f.start())
	all(0)
	f.seen(boards[1].store, "edge-1")
	all(1)
	f.pass(time.Hour)
	all(0)
	f.tells("edge-1 cluster.lost", "edge-1 cluster.back", "edge-1 cluster.lost")
}

// The sign of life that ends the alert may come when no board stands.
func TestAClusterThatComesBackWhileNoConsoleRunsIsTold(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, url string) {
		f := newFleet(t, url, "edge-1")
		b := f.start()
		f.seen(b.store, "edge-1")
		b.shows(1)
		silent := f.clock()
		f.pass(time.Hour)
		b.shows(0)
		f.tells("edge-1 cluster.lost")
		b.stop()
		f.pass(time.Minute)
		f.seen(f.store, "edge-1")
		b = f.start()
		f.tells("edge-1 cluster.lost", "edge-1 cluster.back")
		var list []store.Event
		f.ok(f.store.Read(t.Context(), func(ctx context.Context, v store.View) (err error) {
			list, _, err = v.EventsAfter(ctx, store.EventQuery{Type: ClusterBack}, 0, 10)
			return err
		}))
		if e, err := Decode(list[0]); err != nil || e.GetDuration().AsDuration() != f.clock().Sub(silent) {
			t.Errorf("it came back after %v, %v", e.GetDuration(), err)
		}
		// What was told once is not told by the next one.
		b.stop()
		f.start().shows(1)
		f.tells("edge-1 cluster.lost", "edge-1 cluster.back")
	})
}

// A cluster that was away for longer than events are kept comes back all the same.
func TestAClusterThatComesBackAfterWeeksIsTold(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "sqlite:"+filepath.Join(t.TempDir(), "console.db"), "edge-1")
	b := f.start()
	f.seen(b.store, "edge-1")
	b.shows(1)
	f.pass(time.Hour)
	b.shows(0)
	f.tells("edge-1 cluster.lost")
	f.pass(2 * store.EventsKeep)
	f.seen(b.store, "edge-1")
	b.shows(1)
	await.True(t, "its return is told", func() bool { return slices.Contains(strings.Split(f.told(), ", "), "edge-1 cluster.back") })
}

// A hub that was away heard of nobody: a cluster that it has not heard of since is lost when the hub has listened for as
// long as an agent may be silent.
func TestAHubThatWasAwayCallsNoClusterLostThatLives(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "sqlite:"+filepath.Join(t.TempDir(), "console.db"), "edge-1", "edge-2")
	b := f.start()
	f.seen(b.store, "edge-1")
	f.seen(b.store, "edge-2")
	b.shows(2)
	b.stop()
	f.pass(10 * time.Minute)
	b = f.start()
	b.shows(0)
	f.seen(b.store, "edge-1")
	b.shows(1)
	if told := f.told(); told != "" {
		t.Fatalf("told is %q", told)
	}
	f.pass(4 * time.Minute)
	f.seen(b.store, "edge-1")
	f.pass(90 * time.Second)
	f.tells("edge-2 cluster.lost")
	b.shows(1)
}
