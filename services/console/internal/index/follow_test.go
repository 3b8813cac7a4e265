package index

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

type seesAll struct{}

func (seesAll) Viewer(context.Context, bool) (Sees, error) { return nil, nil }

// Counts beside a project, a configuration set, a global service or a configuration of agents follow services and
// clusters, and statuses of sinks and backends the clock, though no row of its own kind changes.
func TestAStandingQuestionFollowsWhatIsCounted(t *testing.T) {
	t.Parallel()
	at := func(kind store.Kind, revision int64) *row {
		return &row{kind: kind, name: "a", uid: "a", revision: revision}
	}
	service, cluster, source := store.KindService, store.KindCluster, store.KindSource
	for name, c := range map[string]struct {
		kind  store.Kind
		step  step
		again bool // after the step
		ever  bool // without a step
	}{
		"a service comes":             {store.KindProject, step{nil, at(service, 1)}, true, false},
		"a service goes":              {store.KindGlobalService, step{at(service, 1), nil}, true, false},
		"a service is written":        {store.KindConfigSet, step{at(service, 1), at(service, 2)}, true, false},
		"a service has another state": {store.KindProject, step{at(service, 1), at(service, 1)}, false, false},
		"a cluster has other labels":  {store.KindGlobalService, step{at(cluster, 1), at(cluster, 2)}, true, false},
		"a cluster is of no project":  {store.KindProject, step{at(cluster, 1), at(cluster, 2)}, false, false},
		"a source counts no service":  {source, step{nil, at(service, 1)}, false, false},
		"a source is counted nowhere": {store.KindProject, step{nil, at(source, 1)}, false, false},
		"an agent is configured":      {store.KindAgentConfig, step{at(cluster, 1), at(cluster, 1)}, true, false},
		"a service is configured":     {store.KindAgentConfig, step{nil, at(service, 1)}, false, false},
		"a sink has another status":   {store.KindSink, step{nil, at(source, 1)}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			b := New(Deps{
				Store: storetest.SQLite(t), Kinds: testKinds(), Viewer: seesAll{}, Now: func() time.Time { return now },
				Log: slog.New(slog.DiscardHandler),
			})
			b.ready = true
			s, err := b.Stand(Question{Kind: c.kind})
			if err != nil {
				t.Fatal(err)
			}
			asks := func(want bool) {
				t.Helper()
				_, same, err := s.Answer(t.Context())
				if err != nil || same == want {
					t.Errorf("answered again: %v, want %v: %v", !same, want, err)
				}
			}
			asks(true)
			b.step(c.step.before, c.step.after)
			asks(false) // soon, and not at each step
			now = now.Add(2 * wholeEvery)
			asks(c.again)
			now = now.Add(2 * wholeEvery)
			asks(c.ever)
		})
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
