package reconcile

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/reconcile/machine"
	"fairlead.dev/services/agent/internal/set"
	"fairlead.dev/services/agent/internal/trial"
	"fairlead.dev/services/agent/internal/watch"
)

// away is a hub that gives no content and takes reports.
type away struct{ last *deliveryv1.ServiceReport }

func (*away) Has(desired.Service) bool                       { return false }
func (*away) Prepare(context.Context, desired.Service) error { return errors.New("the hub is away") }

func (*away) Open(context.Context, desired.Service) (io.ReadCloser, error) {
	return nil, errors.New("the hub is away")
}
func (a *away) Set(report *deliveryv1.ServiceReport) error { a.last = report; return nil }
func (a *away) Latest(string) *deliveryv1.ServiceReport    { return a.last }

// runRound has a worker do what the table says, from its verdict until it rests, and returns for how long.
func runRound(ctx context.Context, w *worker, service desired.Service, record inventory.Record) time.Duration {
	w.order = order{ctx: ctx, patience: ctx, service: service}
	w.round = round{record: record, standing: idle}
	state, out := machine.State{Place: machine.Deciding}, w.weighWanted()
	for {
		var actions []machine.Action
		state, actions = machine.Next(state, out.event)
		if state.Rests() {
			return out.wait
		}
		out = w.doAction(actions[0])
	}
}

// The time of a retry is no reason to look again where nothing is tried: a keeper would do so without a pause.
func TestAKeeperDoesNotLookAgainForARetryThatIsNotMade(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*desired.Service){
		"other content": func(s *desired.Service) { s.Path, s.Digest = "b", "d2" },
		"a freeze is put": func(s *desired.Service) {
			s.Windows = []*deliveryv1.WindowSet{{Kind: "project", Name: "shop", Freeze: &deliveryv1.Freeze{}}}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			store, err := desired.Open(t.TempDir(), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			known := memory.New(func(string) {})
			there := &away{}
			c := &Controller{Deps: Deps{
				Desired: store, Artifacts: there, Reports: there, Inventory: inventory.New(nil, nil), Memory: known,
				Watcher: watch.New(nil, known, func(string) {}, slog.New(slog.DiscardHandler),
					prometheus.NewRegistry()),
			}, turns: newTurns()}
			w := newWorker(&site{controller: c, name: "web", log: slog.New(slog.DiscardHandler)}, &trial.Trial{})
			service := desired.Service{
				Name: "web", Digest: "d1", Path: "a", Manual: true,
				Sync: &deliveryv1.SyncSpec{
					Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, RequestTime: timestamppb.Now(),
					RequestOnly: []string{"ConfigMap/a"},
				},
			}
			service.AskedFor = service.Content()
			record := inventory.Record{
				Service: "web", Complete: true, Applied: inventory.Applied{Digest: "d0", Set: "before"},
			}
			runRound(t.Context(), w, service, record)
			if w.refusal.again.IsZero() {
				t.Fatalf("the sync was not refused for a while: %+v", w.refusal)
			}
			w.refusal.again = time.Now().Add(-time.Minute)
			if wait := runRound(t.Context(), w, service, record); wait > retryMax ||
				!w.refusal.again.After(time.Now()) {
				t.Errorf("it is not tried again when it is due: next look in %s", wait)
			}
			w.refusal.again = time.Now().Add(-time.Minute)
			change(&service)
			for range 3 {
				if wait := runRound(t.Context(), w, service, record); wait <= 0 {
					t.Errorf("the next look is in %s", wait)
				}
			}
		})
	}
}

// inNamespaces is a cluster in which every kind has namespaces.
type inNamespaces struct{}

func (inNamespaces) Namespaced(context.Context, schema.GroupVersionKind) (bool, error) {
	return true, nil
}

// A held object is neither applied nor repaired, whoever asks. Of an object that a lookup of the chart found the set has
// no content: a sync that names it would take out all that the service has of it, such as a password.
func TestASyncOfSingleObjectsLeavesThoseThatAreHeld(t *testing.T) {
	t.Parallel()
	store, err := set.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	building, err := store.Create(set.Target{
		Service: "web", ID: set.IDOf("d1", ""), Namespace: "shop", Scopes: inNamespaces{},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer building.Discard()
	refOf := func(kind, name string) object.Ref {
		return object.Ref{Key: object.Key{Kind: kind, Namespace: "shop", Name: name}, Version: "v1"}
	}
	live := &unstructured.Unstructured{Object: map[string]any{}}
	live.SetGroupVersionKind(refOf("ConfigMap", "b").GVK())
	for _, name := range []string{"d", "c", "b"} {
		live.SetName(name)
		if err := building.Add(t.Context(), live.DeepCopy(), kubeyaml.Position{File: name + ".yaml"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := building.Hold(t.Context(), refOf("Secret", "password"), kubeyaml.Position{}); err != nil {
		t.Fatal(err)
	}
	objects, err := building.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = objects.Close() }()
	known := memory.New(func(string) {})
	var entries []inventory.Entry
	for _, name := range []string{"b", "c", "d"} {
		entries = append(entries, inventory.Entry{Ref: refOf("ConfigMap", name), UID: types.UID(name), Sum: 1})
	}
	known.Track("web", entries) // the watch has told of b only
	live.SetNamespace("shop")
	live.SetAnnotations(map[string]string{object.HoldAnnotation: "until Monday"})
	known.Saw(live.GroupVersionKind(), live, 0, health.Health{})
	s := &site{name: "web", controller: &Controller{Deps: Deps{Memory: known, Inventory: inventory.New(nil, nil)}}}
	s.controller.Metadata = func(_ context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error) {
		if ref.Name == "d" {
			return nil, errors.New("the API server is away")
		}
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: live.GetAnnotations()}}, nil
	}
	for name, want := range map[string]struct {
		text  string
		final bool
	}{
		"Secret/password": {"Secret shop/password, which stays as it is", true},
		"ConfigMap/b":     {"ConfigMap shop/b, which is held by its annotation fairlead.dev/hold in the cluster", true},
		"ConfigMap/c":     {"ConfigMap shop/c, which is held by its annotation fairlead.dev/hold in the cluster", true},
		"ConfigMap/d":     {"the API server is away", false},
	} {
		service := desired.Service{Name: "web", Sync: &deliveryv1.SyncSpec{RequestOnly: []string{name}}}
		_, failure := s.findChosen(t.Context(), service, inventory.Record{Service: "web"}, objects)
		if failure == nil || failure.final != want.final || !strings.Contains(failure.text, want.text) {
			t.Errorf("%s: got %+v, want %+v", name, failure, want)
		}
	}
}

// An object that was held when the apply asked for it is on hold until a watch says otherwise: a notice of anything else
// does not begin the apply anew.
func TestAnObjectThatNoWatchHasToldOfStaysHeld(t *testing.T) {
	t.Parallel()
	ref := object.Ref{Key: object.Key{Kind: "ConfigMap", Namespace: "shop", Name: "a"}, Version: "v1"}
	known := memory.New(func(string) {})
	known.Track("web", []inventory.Entry{{Ref: ref, UID: "1", Sum: 1}})
	w := newWorker(&site{name: "web", controller: &Controller{Deps: Deps{Memory: known}}}, &trial.Trial{})
	w.held = []object.Key{ref.Key}
	if w.heldReleased() {
		t.Error("it is taken for released before the watch tells of it")
	}
	live := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "shop", UID: "1"}}
	for _, isHeld := range []bool{true, false} {
		live.Annotations = nil
		if isHeld {
			live.Annotations = map[string]string{object.HoldAnnotation: "incident"}
		}
		known.Saw(ref.GVK(), live, 0, health.Health{})
		if w.heldReleased() == isHeld {
			t.Errorf("held: %t, and it is taken for the opposite", isHeld)
		}
	}
}
