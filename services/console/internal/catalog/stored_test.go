package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/depend"
	"fairlead.dev/services/console/internal/intake"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/storetest"
)

// old is a catalog with a source and a cluster, in which an earlier console may have stored what this one refuses.
type old struct {
	*catalog.Catalog
	store  *store.Store
	by     catalog.By
	source state.Meta
}

var whatever = catalog.Expectation{AllowMissing: true}

func newOld(t *testing.T) *old {
	t.Helper()
	s := storetest.SQLite(t)
	box, err := seal.Ensure(filepath.Join(t.TempDir(), "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	ada := identity.Identity{Kind: identity.KindUser, Name: "ada", Groups: []string{identity.AdminsGroup}}
	o := &old{store: s, by: catalog.By{Identity: ada, Subject: ada.Subject()}}
	o.Catalog = catalog.New(authz.New(s, nil), catalog.Deps{Store: s, Box: box, Log: slog.New(slog.DiscardHandler), Hooks: func(c *catalog.Catalog) []catalog.Hook {
		return []catalog.Hook{catalog.Globals{Catalog: c}, depend.Hook{}}
	}})
	source := state.Source{
		Meta: state.Meta{Name: "shop"},
		Spec: state.SourceSpec{Git: state.GitSource{URL: "https://git.example.com/shop"}},
	}
	o.put(t, drafted(catalog.DraftSource(&source, whatever)))
	o.put(t, cluster("edge-1"))
	is, err := o.GetSource(o.ctx(t), "shop")
	if err != nil {
		t.Fatal(err)
	}
	o.source = is.Meta
	return o
}

// ctx is that of ada, who may do everything.
func (o *old) ctx(t *testing.T) context.Context {
	return identity.NewContext(t.Context(), o.by.Identity)
}

func drafted(e catalog.Edit, err error) catalog.Edit {
	if err != nil {
		return catalog.Broken(store.KindService, "drafted", err)
	}
	return e
}

func cluster(name string) catalog.Edit {
	c := state.Cluster{Meta: state.Meta{Name: name}}
	return drafted(catalog.DraftCluster(&c, whatever))
}

func service(name string, spec state.ServiceSpec) catalog.Edit {
	spec.Source, spec.Cluster = "shop", "edge-1"
	s := state.Service{Meta: state.Meta{Name: name}, Spec: spec}
	return drafted(catalog.DraftService(&s, whatever))
}

func global(spec resource.GlobalSpec) catalog.Edit {
	spec.Template.Source, spec.Clusters = "shop", &resource.Selector{All: true}
	return drafted(catalog.Draft(resource.GlobalServices(), resource.GlobalService{Meta: state.Meta{Name: "web"}, Spec: spec},
		whatever))
}

func (o *old) try(t *testing.T, e catalog.Edit) error {
	t.Helper()
	_, err := o.PutAll(o.ctx(t), o.by, []catalog.Edit{e}, false)
	return err
}

func (o *old) put(t *testing.T, e catalog.Edit) {
	t.Helper()
	if err := o.try(t, e); err != nil {
		t.Fatal(err)
	}
}

// stored puts a row past all checks.
func (o *old) stored(t *testing.T, kind store.Kind, name string, spec any, refs ...store.Ref) {
	t.Helper()
	text, err := json.Marshal(spec)
	if err == nil {
		err = o.store.Write(t.Context(), "test", func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Create(ctx, store.Draft{
				Kind: kind, Name: name, Spec: text,
				Refs: append(refs, store.Ref{Kind: store.KindSource, Name: "shop"}),
			})
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (o *old) storedService(t *testing.T, name string, spec state.ServiceSpec) {
	t.Helper()
	spec.Source, spec.Cluster = "shop", "edge-1"
	o.stored(t, store.KindService, name, spec, store.Ref{Kind: store.KindCluster, Name: "edge-1"})
}

// wantNoNamespaceMade fails unless an error is a refusal to make a namespace.
func wantNoNamespaceMade(t *testing.T, err error) {
	t.Helper()
	const field = "spec.sync.createNamespace"
	if refused, ok := errors.AsType[*refusal.Error](err); !ok || !strings.Contains(refused.Message, field) {
		t.Errorf("got %v, want a refusal of %s", err, field)
	}
}

// makes has the agent make the namespace of the service.
var makes = state.ServiceSpec{Sync: json.RawMessage(`{"createNamespace":{}}`)}

// A source's commits arrive though one of its services can't be written any more.
func TestASourceIsPublishedBesideAServiceThatCantBeReleased(t *testing.T) {
	t.Parallel()
	o := newOld(t)
	pinned := state.ServiceSpec{
		Sync:       json.RawMessage(`{"pin":"` + strings.Repeat("b", 40) + `"}`),
		UnpinAfter: strings.Repeat("a", 40),
	}
	o.storedService(t, "web", pinned)
	pinned.Path = ".git"
	o.storedService(t, "broken", pinned)
	in := intake.New(intake.Deps{Store: o.store, Catalog: o.Catalog, Log: slog.New(slog.DiscardHandler)})
	claimed, err := in.ClaimSource(t.Context(), "test", "shop", o.source.UID, "me")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := in.PublishHeads(t.Context(), "test", "shop", o.source.UID, intake.Publication{
			Epoch: claimed.Epoch, Heads: []state.Head{{
				Ref:      "HEAD",
				Revision: state.Revision{Commit: strings.Repeat("c", 40)},
			}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"web": "", "broken": strings.Repeat("b", 40)} {
		if s, err := o.GetService(o.ctx(t), name); err != nil || s.Spec.EffectiveRef() != want {
			t.Errorf("%s follows %q, %v; want %q", name, s.Spec.EffectiveRef(), err, want)
		}
	}
}

// A namespace to make needs a name. A service that an earlier console stored without one can be held and changed,
// though not made.
func TestAServiceWithoutTheNamespaceThatItsAgentMakesIsRefusedWhereItIsWritten(t *testing.T) {
	t.Parallel()
	o := newOld(t)
	wantNoNamespaceMade(t, o.try(t, service("new", makes)))
	o.put(t, service("web", state.ServiceSpec{}))
	wantNoNamespaceMade(t, o.try(t, service("web", makes)))
	named := makes
	named.Namespace = "shop"
	o.put(t, service("web", named))
	wantNoNamespaceMade(t, o.try(t, service("web", makes)))

	o.storedService(t, "old", makes)
	if _, err := o.Hold(o.ctx(t), o.by, "old", "SYNC_MODE_HOLD", "the sale", (state.Lever{}).Until); err != nil {
		t.Errorf("it can't be held: %v", err)
	}
	if _, err := o.Resume(o.ctx(t), o.by, "old"); err != nil {
		t.Errorf("it can't be resumed: %v", err)
	}
	moved := makes
	moved.Path = "deploy"
	if err := o.try(t, service("old", moved)); err != nil {
		t.Errorf("it can't be changed: %v", err)
	}
	o.put(t, service("old", named))
	wantNoNamespaceMade(t, o.try(t, service("old", makes)))
}

// A service that an earlier console let wait for what is not there keeps its levers, and can be changed.
func TestAServiceThatWaitsForNoneThatIsThereKeepsItsLevers(t *testing.T) {
	t.Parallel()
	o := newOld(t)
	waits := func(path, on string) state.ServiceSpec {
		return state.ServiceSpec{Path: path, Sync: json.RawMessage(`{"dependsOn":["` + on + `"]}`)}
	}
	o.storedService(t, "web", waits("", "gone"))
	if _, err := o.Hold(o.ctx(t), o.by, "web", "SYNC_MODE_HOLD", "the sale", (state.Lever{}).Until); err != nil {
		t.Errorf("it can't be held: %v", err)
	}
	if _, err := o.Resume(o.ctx(t), o.by, "web"); err != nil {
		t.Errorf("it can't be resumed: %v", err)
	}
	if err := o.try(t, service("web", waits("deploy", "gone"))); err != nil {
		t.Errorf("it can't be changed: %v", err)
	}
	if err := o.try(t, service("web", waits("deploy", "none"))); !refusal.Is(err, refusal.Precondition) {
		t.Errorf("it may wait for another one that is not there: %v", err)
	}
}

// A template can leave the namespace to its overrides: what each cluster gets counts.
func TestAGlobalServiceNamesTheNamespaceThatAgentsMakeAtEachCluster(t *testing.T) {
	t.Parallel()
	o := newOld(t)
	spec := resource.GlobalSpec{Template: makes, Overrides: []resource.GlobalOverride{
		{Clusters: &resource.Selector{Names: []string{"edge-1"}}, Ref: "main"},
		{Clusters: &resource.Selector{Names: []string{"edge-1", "edge-2"}}, Namespace: "shop"},
	}}
	o.put(t, global(spec))
	if s, err := o.GetService(o.ctx(t), "web-edge-1"); err != nil || s.Spec.Namespace != "shop" {
		t.Errorf("got namespace %q, %v", s.Spec.Namespace, err)
	}
	o.put(t, cluster("edge-2"))
	spec.Overrides = spec.Overrides[:1]
	wantNoNamespaceMade(t, o.try(t, global(spec)))
}

// A global service that an earlier console stored keeps no cluster out.
func TestAClusterJoinsBesideAGlobalServiceWithoutANamespace(t *testing.T) {
	t.Parallel()
	o := newOld(t)
	template := makes
	template.Source = "shop"
	spec := resource.GlobalSpec{Template: template, Clusters: &resource.Selector{All: true}}
	o.stored(t, store.KindGlobalService, "web", spec)
	o.put(t, cluster("edge-2"))
	if _, err := o.GetService(o.ctx(t), "web-edge-2"); err != nil {
		t.Error(err)
	}
	spec.MaxDeletions = 3
	o.put(t, global(spec))
}
