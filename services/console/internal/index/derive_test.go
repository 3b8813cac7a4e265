package index

import (
	"context"
	"log/slog"
	"maps"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/query"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/database"
	"fairlead.dev/services/console/internal/store/storetest"
)

// quiet is a board without a database, with a service of a source at a cluster that a follower looks at.
func quiet(t *testing.T) *Index {
	t.Helper()
	s := storetest.SQLite(t)
	b := New(Deps{Store: s, Log: slog.New(slog.DiscardHandler)})
	service := structure(store.Resource{Kind: store.KindService, Name: "web", UID: "s", Spec: []byte(`{"source": "shop", "ref": "main", "cluster": "edge-1"}`)})
	service.keep(nil)
	essence := (&state.Service{Spec: state.ServiceSpec{Ref: "main"}}).Essence()
	service.essence = &essence
	b.kind(store.KindService)["web"] = service
	b.index(nil, service)
	l := &look{board: b, exprs: map[store.Kind]*query.Expr{store.KindService: nil}}
	b.looks[l] = true
	return b
}

// said puts what is read of a source or cluster on the board.
func (b *Index) said(kind store.Kind, name string, sum uint64, value any) {
	r := structure(store.Resource{Kind: kind, Name: name, UID: name, Spec: []byte("{}")})
	r.status(value)
	r.sum = sum
	if b.kind(kind)[name] == nil {
		b.rows[kind][name] = r
	}
	b.put([]loadedRow{{row: r, item: &Item{Kind: kind, Value: value}}}, nil)
}

// News of other refs of a source are no reason to look at a service.
func TestOnlyServicesOfTheRefAreReadAnew(t *testing.T) {
	t.Parallel()
	b := quiet(t)
	heads := func(main, next string) state.Source {
		head := func(ref, commit string) state.Head {
			return state.Head{Ref: ref, Revision: state.Revision{Commit: commit}}
		}
		return state.Source{Meta: state.Meta{Name: "shop"}, Status: state.SourceStatus{Heads: []state.Head{head("refs/heads/main", main), head("refs/heads/next", next)}}}
	}
	at := store.Ref{Kind: store.KindService, Name: "web"}
	b.said(store.KindSource, "shop", 1, heads("a", "b"))
	clear(b.later)
	b.said(store.KindSource, "shop", 2, heads("a", "c"))
	if b.later[at] {
		t.Error("read anew for another ref")
	}
	b.said(store.KindSource, "shop", 3, heads("d", "c"))
	if !b.later[at] {
		t.Error("not read anew for its own ref")
	}
}

func TestAServiceIsUnknownSinceItsClusterWasSeenLast(t *testing.T) {
	t.Parallel()
	b := quiet(t)
	for n := range 2 {
		clear(b.later)
		seen := time.Unix(int64(1000+n), 0)
		b.said(store.KindCluster, "edge-1", uint64(n), state.Cluster{Meta: state.Meta{Name: "edge-1"}, Status: state.ClusterStatus{LastSeen: seen}})
		if r := b.rows[store.KindService]["web"]; r.since != database.Micros(seen) {
			t.Errorf("unknown since %d, seen at %d", r.since, database.Micros(seen))
		}
	}
}

// A board that begins anew may not go by sources that are gone.
func TestABoardThatBeginsAnewForgetsSources(t *testing.T) {
	t.Parallel()
	b := quiet(t)
	b.said(store.KindSource, "shop", 1, state.Source{Meta: state.Meta{Name: "shop"}})
	b.hubRefs[store.HubRef{Source: "s", Ref: "refs/heads/main"}] = state.RefHub{}
	b.begin(t.Context(), feed.Event{Kind: feed.Snapshot})
	if len(b.sources)+len(b.hubRefs) > 0 {
		t.Errorf("sources are %v, refs %v", b.sources, b.hubRefs)
	}
}

// What the hub says of services is judged by the refs that the board knows: one that begins has to know all of them.
func TestABoardThatBeginsReadsTheRefsOfSources(t *testing.T) {
	t.Parallel()
	b := quiet(t)
	var source store.Resource
	err := b.Store.Write(t.Context(), "test", func(ctx context.Context, tx *store.Tx) error {
		made, err := tx.Create(ctx, store.Draft{Kind: store.KindSource, Name: "shop", Spec: []byte(`{}`)})
		source = made[0]
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	at := store.HubRef{Source: source.UID, Ref: "refs/heads/main"}
	said := map[store.HubRef][]byte{at: []byte(`{"revision": {"commit": "a"}}`)}
	if err := b.Store.PutHubRefs(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	b.lay(feed.Event{Kind: feed.Snapshot, Changes: []store.Change{
		{Kind: source.Kind, Name: source.Name, UID: source.UID, Resource: source},
	}})
	clear(b.urgent) // of the source itself
	b.refresh(t.Context())
	if b.hubRefs[at].Revision.Commit != "a" {
		t.Errorf("refs are %v", b.hubRefs)
	}
}

// A first report is compared with what the board says of its service.
func TestTheBoardKnowsWhoHasNotReported(t *testing.T) {
	t.Parallel()
	b := quiet(t)
	if out := b.Unreported([]string{"web", "gone"}); len(out) > 0 {
		t.Errorf("without the cluster %v", out)
	}
	b.said(store.KindCluster, "edge-1", 1, state.Cluster{Meta: state.Meta{Name: "edge-1"}})
	want := map[string]state.Unreported{"web": {UID: "s", Cluster: "edge-1", ClusterUID: "edge-1"}}
	if out := b.Unreported([]string{"web", "gone"}); !maps.Equal(out, want) {
		t.Errorf("unreported are %v, want %v", out, want)
	}
	web := b.rows[store.KindService]["web"]
	essence := *web.essence
	if !essence.Report(store.Report{Sequence: 1, Value: &state.Report{Sequence: 1, Phase: state.PhaseProgressing}}) {
		t.Fatal("the report is not taken over")
	}
	b.replace(web, b.judged(web, &essence), time.Now())
	if out := b.Unreported([]string{"web"}); len(out) > 0 {
		t.Errorf("after a report %v", out)
	}
	b.rows[store.KindService]["web"].essence = nil
	if out := b.Unreported([]string{"web"}); len(out) > 0 {
		t.Errorf("before the status was read %v", out)
	}
}

// A service that goes to another cluster is told of that one only.
func TestTheBoardKnowsWhichServicesAClusterHas(t *testing.T) {
	t.Parallel()
	b := quiet(t)
	moved := structure(store.Resource{
		Kind: store.KindService, Name: "web", UID: "s", Spec: []byte(`{"source": "shop", "cluster": "edge-2"}`),
	})
	b.step(b.rows[store.KindService]["web"], moved)
	b.rows[store.KindService]["web"] = moved
	moved.keep(nil)
	essence := (&state.Service{}).Essence()
	moved.essence = &essence
	at := store.Ref{Kind: store.KindService, Name: "web"}
	for name, want := range map[string]bool{"edge-1": false, "edge-2": true} {
		clear(b.later)
		status := state.ClusterStatus{Connected: true, LastSeen: time.Unix(1000, 0)}
		b.said(store.KindCluster, name, 1, state.Cluster{Meta: state.Meta{Name: name}, Status: status})
		if b.later[at] != want {
			t.Errorf("%s: read anew %v, want %v", name, b.later[at], want)
		}
	}
	b.step(moved, nil)
	if len(b.services) > 0 {
		t.Errorf("services of clusters are %v", b.services)
	}
}
