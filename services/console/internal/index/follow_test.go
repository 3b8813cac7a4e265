package index

import (
	"log/slog"
	"path/filepath"
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

// testKinds are those that the tests of this package read.
func testKinds() descriptor.Table {
	return descriptor.Table{
		descriptor.Of[state.Cluster, *consolev1.Cluster]{Kind: store.KindCluster, Load: state.Loader.Clusters},
		descriptor.Of[state.Service, *consolev1.Service]{Kind: store.KindService, Load: state.Loader.Services},
		descriptor.Of[state.Source, *consolev1.Source]{Kind: store.KindSource, Load: state.Loader.Sources},
	}
}
