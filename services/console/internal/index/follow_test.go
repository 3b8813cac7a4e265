package index

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/storetest"
)

// The resources of a snapshot are read after the board was looked at: by then a resource may be where the follower sees
// nothing.
func TestASnapshotJudgesWhatItReads(t *testing.T) {
	t.Parallel()
	box, err := seal.Ensure(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	s := storetest.SQLite(t)
	log := slog.New(slog.DiscardHandler)
	c := catalog.New(authz.New(s, nil), catalog.Deps{Store: s, Box: box, Log: log})
	for _, name := range []string{"mine", "theirs"} {
		if _, _, err := c.UpdateCluster(t.Context(), catalog.Self("test"), state.Cluster{Meta: state.Meta{Name: name}}, catalog.Expectation{AllowMissing: true}); err != nil {
			t.Fatal(err)
		}
	}
	l := &look{
		board: New(Deps{Store: s, Kinds: testKinds(), Loader: state.NewLoader(nil), Log: log}), follower: &Follower{},
		sees: func(_ store.Kind, name, _, _ string) bool { return name == "mine" },
	}
	items, err := l.items(t.Context(), store.KindCluster, []string{"mine", "theirs"})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		if cluster, ok := item.Value.(state.Cluster); !ok || cluster.Meta.Name != "mine" {
			t.Errorf("shown: %+v", item.Value)
		}
	}
	if len(items) != 1 {
		t.Errorf("%d are shown", len(items))
	}
}

// A standing question reads its resources after it has looked at the board, too.
func TestAStandingQuestionJudgesWhatItReads(t *testing.T) {
	t.Parallel()
	s := storetest.SQLite(t)
	err := s.Write(t.Context(), "test", func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Create(ctx,
			store.Draft{Kind: store.KindService, Name: "stays", Spec: []byte(`{"project": "mine", "cluster": "a"}`)},
			store.Draft{Kind: store.KindService, Name: "moves", Spec: []byte(`{"project": "theirs", "cluster": "a"}`)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b := New(Deps{Store: s, Kinds: testKinds(), Loader: state.NewLoader(nil), Log: slog.New(slog.DiscardHandler)})
	var rows []*row
	err = s.Read(t.Context(), func(ctx context.Context, v store.View) error {
		list, err := v.List(ctx, store.KindService, "", 10)
		for _, r := range list {
			r.Spec = []byte(`{"project": "mine", "cluster": "a"}`) // as the board has seen it
			rows = append(rows, structure(r))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	mine := func(_ store.Kind, _, project, _ string) bool { return project == "mine" }
	for _, sees := range []Sees{nil, mine} { // what the first one reads is shared
		_, names, err := b.itemsOf(t.Context(), store.KindService, rows, sees)
		if want := map[bool]string{true: "moves stays", false: "stays"}[sees == nil]; err != nil ||
			strings.Join(names, " ") != want {
			t.Errorf("shown are %q, %v, want %q", names, err, want)
		}
	}
}

// testKinds are those that the tests of this package read.
func testKinds() descriptor.Table {
	return descriptor.Table{
		descriptor.Of[state.Cluster, *consolev1.Cluster]{Kind: store.KindCluster, Load: state.Loader.Clusters},
		descriptor.Of[state.Service, *consolev1.Service]{Kind: store.KindService, Load: state.Loader.Services},
		descriptor.Of[state.Source, *consolev1.Source]{Kind: store.KindSource, Load: state.Loader.Sources},
	}
}
