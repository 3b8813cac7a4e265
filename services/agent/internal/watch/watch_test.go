package watch_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/watch"
)

var (
	configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	boats      = schema.GroupVersionKind{Group: "harbour.dev", Version: "v1", Kind: "Boat"}
	crds       = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
)

const service = "shop"

// api is a server at the network's edge: streams are what a test makes of them.
type api struct {
	mu        sync.Mutex // guards what follows
	kinds     map[schema.GroupVersionKind]cluster.Kind
	objects   map[string]*metav1.PartialObjectMetadata
	streams   map[schema.GroupVersionKind]*apiwatch.RaceFreeFakeWatcher
	calls     []string
	options   map[schema.GroupVersionKind]metav1.ListOptions
	refuse    func(gvk schema.GroupVersionKind, opts metav1.ListOptions) error
	refreshed []string
	away      error         // of reads of one object
	stall     chan struct{} // reads of one object wait until it is closed; nil: they don't

	silences atomic.Int32 // how often it went silent, or answered again
}

func newAPI(kinds ...schema.GroupVersionKind) *api {
	a := &api{
		kinds:   map[schema.GroupVersionKind]cluster.Kind{configMaps: {Namespaced: true}, crds: {Status: true}},
		objects: map[string]*metav1.PartialObjectMetadata{},
		streams: map[schema.GroupVersionKind]*apiwatch.RaceFreeFakeWatcher{},
		options: map[schema.GroupVersionKind]metav1.ListOptions{},
	}
	for _, kind := range kinds {
		a.kinds[kind] = cluster.Kind{Namespaced: true, Status: kind == boats}
	}
	return a
}

func (a *api) AwaitsPod(context.Context, *unstructured.Unstructured) bool { return false }

func (a *api) Watch(_ context.Context, gvk schema.GroupVersionKind, metadataOnly bool,
	opts metav1.ListOptions,
) (apiwatch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if gvk == configMaps && opts.FieldSelector != "" { // the inventories' annotations
		return apiwatch.NewRaceFreeFake(), nil
	}
	a.calls = append(a.calls, fmt.Sprintf("watch %s %q metadata=%v", gvk.Kind, opts.ResourceVersion, metadataOnly))
	a.options[gvk] = opts
	if a.refuse != nil {
		if err := a.refuse(gvk, opts); err != nil {
			return nil, err
		}
	}
	a.streams[gvk] = apiwatch.NewRaceFreeFake()
	return a.streams[gvk], nil
}

func (a *api) List(_ context.Context, gvk schema.GroupVersionKind, _ bool, _ metav1.ListOptions,
	each func(metav1.Object),
) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, "list "+gvk.Kind)
	for _, obj := range a.objects {
		if obj.Kind == gvk.Kind {
			each(obj)
		}
	}
	return "50", nil
}

func (a *api) Metadata(ctx context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error) {
	a.mu.Lock()
	stall := a.stall
	a.mu.Unlock()
	if stall != nil {
		select {
		case <-stall:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if ref.Name != inventory.ClusterMap { // which is asked for to see whether the server answers
		a.calls = append(a.calls, "get "+ref.Name)
	}
	if a.away != nil {
		return nil, a.away
	}
	if obj, ok := a.objects[ref.Name]; ok {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, ref.Name)
}

func (a *api) Select(context.Context, schema.GroupVersionKind, string,
	metav1.ListOptions,
) ([]*unstructured.Unstructured, error) {
	return nil, nil
}

func (a *api) Kind(_ context.Context, gvk schema.GroupVersionKind) (cluster.Kind, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if kind, ok := a.kinds[gvk]; ok {
		return kind, nil
	}
	a.calls = append(a.calls, "discover "+gvk.Kind)
	return cluster.Kind{}, &cluster.UnknownKindError{GVK: gvk}
}

func (a *api) Refresh(group string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refreshed = append(a.refreshed, group)
}

// called returns the calls since the last time, of those that contain a word.
func (a *api) called(word string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	calls := a.calls
	a.calls = nil
	return slices.DeleteFunc(calls, func(call string) bool { return !strings.Contains(call, word) })
}

func (a *api) stream(gvk schema.GroupVersionKind) *apiwatch.RaceFreeFakeWatcher {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.streams[gvk]
}

// beginsAnew tells whether the last stream of a kind began with all objects.
func (a *api) beginsAnew(gvk schema.GroupVersionKind) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.options[gvk].ResourceVersion == ""
}

func live(gvk schema.GroupVersionKind, name string, version int) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{Kind: gvk.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "n", UID: types.UID("uid-" + name), ResourceVersion: fmt.Sprint(version),
			Labels: map[string]string{object.ServiceLabel: service},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{
					Manager: object.FieldManager, Operation: metav1.ManagedFieldsOperationApply,
					FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`),
				},
			},
		},
	}
}

func bookmark(version int, end bool) *metav1.PartialObjectMetadata {
	mark := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: fmt.Sprint(version)}}
	if end {
		mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return mark
}

func entries(gvk schema.GroupVersionKind, names ...string) []inventory.Entry {
	var list []inventory.Entry
	for _, name := range names {
		list = append(list, inventory.Entry{Ref: object.Ref{Key: key(gvk, name), Version: gvk.Version}, Sum: 1})
	}
	return list
}

func key(gvk schema.GroupVersionKind, name string) object.Key {
	return object.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: "n", Name: name}
}

// run runs a watcher over what a service has, in a bubble of time.
func run(t *testing.T, a *api, list []inventory.Entry, do func(t *testing.T, m *memory.Memory, w *watch.Watcher)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := memory.New(func(string) {})
		m.Track(service, list)
		w := watch.New(a, m, func(string) {}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		w.Silence = func() { a.silences.Add(1) }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = w.Run(ctx)
		}()
		synctest.Wait()
		do(t, m, w)
		cancel()
		<-ended
	})
}

func mustState(t *testing.T, m *memory.Memory, k object.Key, want memory.State) {
	t.Helper()
	synctest.Wait()
	if known, _ := m.Get(k); known.State != want {
		t.Errorf("%s is %v, want %v", k, known.State, want)
	}
}

// A client that deletes thousands of objects keeps nobody from hearing of the others.
func TestNewsComeWhileWhatIsGoneIsAskedFor(t *testing.T) {
	t.Parallel()
	a := newAPI()
	run(t, a, entries(configMaps, "gone", "other"), func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
		stall := make(chan struct{})
		a.mu.Lock()
		a.stall = stall
		a.mu.Unlock()
		a.stream(configMaps).Add(live(configMaps, "gone", 2))
		a.stream(configMaps).Add(live(configMaps, "other", 3))
		a.stream(configMaps).Action(apiwatch.Bookmark, bookmark(4, true))
		mustState(t, m, key(configMaps, "other"), memory.Present)
		a.stream(configMaps).Delete(live(configMaps, "gone", 5))
		changed := live(configMaps, "other", 6)
		changed.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(`{}`)
		a.stream(configMaps).Modify(changed)
		mustState(t, m, key(configMaps, "other"), memory.Drifted)
		mustState(t, m, key(configMaps, "gone"), memory.Present)
		close(stall)
		mustState(t, m, key(configMaps, "gone"), memory.Gone)
	})
}

func TestEmptyInitialListIsAnAnswer(t *testing.T) {
	t.Parallel()
	a := newAPI()
	run(t, a, entries(configMaps, "a"), func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
		if opts := a.options[configMaps]; opts.LabelSelector != object.ServiceLabel || opts.SendInitialEvents == nil ||
			!opts.AllowWatchBookmarks {
			t.Errorf("asked with %+v", opts)
		}
		mustState(t, m, key(configMaps, "a"), memory.Unseen)
		a.stream(configMaps).Action(apiwatch.Bookmark, bookmark(7, true))
		mustState(t, m, key(configMaps, "a"), memory.Gone)
	})
}

func TestGoneAfter410IsFoundBySweep(t *testing.T) {
	t.Parallel()
	a := newAPI()
	run(t, a, entries(configMaps, "a", "b"), func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
		stream := a.stream(configMaps)
		stream.Add(live(configMaps, "a", 3))
		stream.Add(live(configMaps, "b", 2))
		stream.Action(apiwatch.Bookmark, bookmark(7, true))
		mustState(t, m, key(configMaps, "b"), memory.Present)
		stream.Stop() // the server closes it: the next one goes on from the bookmark
		<-time.After(time.Minute)
		synctest.Wait()
		if calls := a.called("watch"); !slices.Contains(calls, `watch ConfigMap "7" metadata=true`) {
			t.Errorf("calls: %v", calls)
		}
		status := apierrors.NewResourceExpired("too old").Status()
		a.stream(configMaps).Error(&status)
		<-time.After(time.Minute)
		synctest.Wait()
		if calls := a.called("watch"); !slices.Contains(calls, `watch ConfigMap "" metadata=true`) {
			t.Errorf("calls: %v", calls)
		}
		a.stream(configMaps).Add(live(configMaps, "a", 3))
		mustState(t, m, key(configMaps, "b"), memory.Present)
		a.stream(configMaps).Action(apiwatch.Bookmark, bookmark(20, true))
		mustState(t, m, key(configMaps, "b"), memory.Gone)
		mustState(t, m, key(configMaps, "a"), memory.Present)
		if calls := a.called("get"); !slices.Equal(calls, []string{"get b"}) {
			t.Errorf("calls: %v", calls)
		}
	})
}

func TestStrippedLabelIsNoDelete(t *testing.T) {
	t.Parallel()
	a := newAPI()
	run(t, a, entries(configMaps, "a", "b"), func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
		stream := a.stream(configMaps)
		stream.Add(live(configMaps, "a", 3))
		stream.Add(live(configMaps, "b", 3))
		stream.Action(apiwatch.Bookmark, bookmark(7, true))
		stripped := live(configMaps, "a", 8)
		stripped.Labels = nil
		synctest.Wait()
		a.mu.Lock()
		a.objects["a"] = stripped
		a.mu.Unlock()
		stream.Delete(live(configMaps, "a", 8))
		stream.Delete(live(configMaps, "b", 9))
		mustState(t, m, key(configMaps, "a"), memory.Drifted)
		mustState(t, m, key(configMaps, "b"), memory.Gone)
	})
}

// An hour in which nothing changes: one stream and no request, thanks to bookmarks. Without them the stream
// is taken for dead every ten minutes, and no more often; one that said nothing at all is begun anew.
func TestBookmarksKeepAQuietWatchFresh(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]time.Duration{"with bookmarks": time.Minute, "silent": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI()
			run(t, a, entries(configMaps, "a"), func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
				a.stream(configMaps).Add(live(configMaps, "a", 3))
				a.stream(configMaps).Action(apiwatch.Bookmark, bookmark(7, true))
				synctest.Wait()
				a.called("")
				version, last := 7, a.stream(configMaps)
				for range time.Hour / time.Minute {
					<-time.After(time.Minute)
					synctest.Wait()
					if now := a.stream(configMaps); now != last && a.beginsAnew(configMaps) {
						now.Add(live(configMaps, "a", 3))
						now.Action(apiwatch.Bookmark, bookmark(7, true))
					}
					last = a.stream(configMaps)
					if every == time.Minute {
						version++
						a.stream(configMaps).Action(apiwatch.Bookmark, bookmark(version, false))
					}
				}
				calls := a.called("")
				if every == time.Minute && len(calls) > 0 ||
					every != time.Minute && (len(calls) < 3 || len(calls) > 6) {
					t.Errorf("calls: %v", calls)
				}
				if s := m.Summary(service); s.Healthy != 1 {
					t.Errorf("got %+v", s)
				}
				a.called("")
				a.stream(configMaps).Stop()
				<-time.After(time.Minute)
				synctest.Wait()
				if calls := a.called(""); !slices.Equal(calls, []string{
					fmt.Sprintf("watch ConfigMap %q metadata=true", fmt.Sprint(version)),
				}) {
					t.Errorf("it goes on with %v", calls)
				}
			})
		})
	}
}

func TestCRDThatArrivesStartsItsWatchOnly(t *testing.T) {
	t.Parallel()
	a := newAPI()
	list := append(entries(boats, "dinghy"), entries(configMaps, "a")...)
	run(t, a, list, func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
		a.stream(crds).Action(apiwatch.Bookmark, bookmark(5, true))
		mustState(t, m, key(boats, "dinghy"), memory.Gone) // without its kind there can be no boat
		a.called("")
		<-time.After(time.Second)
		a.mu.Lock()
		a.kinds[boats] = cluster.Kind{Namespaced: true, Status: true}
		a.mu.Unlock()
		a.stream(crds).Add(&metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{Name: "boats.harbour.dev", ResourceVersion: "9"},
		})
		synctest.Wait()
		if calls := a.called(""); !slices.Equal(calls, []string{`watch Boat "" metadata=false`}) ||
			!slices.Equal(a.refreshed, []string{"harbour.dev"}) {
			t.Errorf("calls %v, refreshed %v", calls, a.refreshed)
		}
		m.Track(service, entries(configMaps, "a")) // the last boat goes: so does its watch
		synctest.Wait()
		if !a.stream(boats).IsStopped() || !a.stream(crds).IsStopped() || a.stream(configMaps).IsStopped() {
			t.Error("the wrong watches run")
		}
	})
}

func TestServerWithoutStreamedListsIsListed(t *testing.T) {
	t.Parallel()
	a := newAPI()
	a.refuse = func(_ schema.GroupVersionKind, opts metav1.ListOptions) error {
		if opts.SendInitialEvents != nil {
			return apierrors.NewInvalid(schema.GroupKind{}, "sendInitialEvents", nil)
		}
		return nil
	}
	a.objects["a"] = live(configMaps, "a", 3)
	run(t, a, entries(configMaps, "a", "b"), func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
		mustState(t, m, key(configMaps, "a"), memory.Present)
		mustState(t, m, key(configMaps, "b"), memory.Gone)
		if calls := a.called("watch"); calls[len(calls)-1] != `watch ConfigMap "50" metadata=true` {
			t.Errorf("calls: %v", calls)
		}
	})
}

// An object that is deleted while the server is too busy to say so is not forgotten until the stream ends by itself.
func TestWhatCouldNotBeAskedForIsAskedForAgain(t *testing.T) {
	t.Parallel()
	a := newAPI()
	run(t, a, entries(configMaps, "a"), func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
		a.stream(configMaps).Add(live(configMaps, "a", 3))
		a.stream(configMaps).Action(apiwatch.Bookmark, bookmark(7, true))
		synctest.Wait()
		a.mu.Lock()
		a.away = apierrors.NewTooManyRequests("busy", 1)
		a.mu.Unlock()
		a.stream(configMaps).Delete(live(configMaps, "a", 8))
		synctest.Wait()
		mustState(t, m, key(configMaps, "a"), memory.Present)
		a.called("")
		<-time.After(time.Minute)
		synctest.Wait()
		if calls := a.called("watch"); !slices.Equal(calls, []string{`watch ConfigMap "" metadata=true`}) {
			t.Fatalf("calls: %v", calls)
		}
		a.mu.Lock()
		a.away = nil
		a.mu.Unlock()
		a.stream(configMaps).Action(apiwatch.Bookmark, bookmark(9, true))
		synctest.Wait()
		mustState(t, m, key(configMaps, "a"), memory.Gone)
	})
}

// An object that a stream named before its service was known is not lost.
func TestObjectsThatAreTrackedLateAreReadAnew(t *testing.T) {
	t.Parallel()
	a := newAPI()
	run(t, a, entries(configMaps, "a"), func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
		all := func() {
			a.stream(configMaps).Add(live(configMaps, "a", 3))
			a.stream(configMaps).Add(live(configMaps, "b", 4))
			a.stream(configMaps).Action(apiwatch.Bookmark, bookmark(7, true))
			synctest.Wait()
		}
		all()
		a.called("")
		late := entries(configMaps, "b")
		late[0].UID = "uid-b"
		m.Track("late", late)
		synctest.Wait()
		if calls := a.called("watch"); !slices.Equal(calls, []string{`watch ConfigMap "" metadata=true`}) {
			t.Fatalf("calls: %v", calls)
		}
		all()
		if known, _ := m.Get(key(configMaps, "b")); known.Health != health.Healthy {
			t.Errorf("got %+v", known)
		}
	})
}

// A stream that ends before all objects have come says too little to be begun anew at once.
func TestStreamThatEndsInItsBeginningIsNoHotLoop(t *testing.T) {
	t.Parallel()
	a := newAPI()
	run(t, a, entries(configMaps, "a"), func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
		streams := 0
		for began := time.Now(); time.Since(began) < 10*time.Minute; <-time.After(50 * time.Millisecond) {
			synctest.Wait()
			if len(a.called("watch")) > 0 {
				streams++
				a.stream(configMaps).Add(live(configMaps, "a", 3))
				synctest.Wait()
				a.stream(configMaps).Stop()
			}
		}
		if streams > 80 {
			t.Errorf("%d streams in ten minutes", streams)
		}
	})
}

func TestForbiddenKindsAreAskedFor(t *testing.T) {
	t.Parallel()
	a := newAPI()
	a.refuse = func(schema.GroupVersionKind, metav1.ListOptions) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil)
	}
	a.objects["a"] = live(configMaps, "a", 3)
	run(t, a, entries(configMaps, "a", "b"), func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
		mustState(t, m, key(configMaps, "a"), memory.Present)
		mustState(t, m, key(configMaps, "b"), memory.Gone)
		a.called("")
		<-time.After(time.Hour)
		synctest.Wait()
		if gets := a.called("get"); len(gets) < 10 || len(gets) > 30 { // b is asked for once
			t.Errorf("%d requests in an hour", len(gets))
		}
	})
}

// A server whose data were set back to a backup says nothing to a stream from a later place, and counts anew from an
// earlier one. Its objects are as they are, all the same.
func TestClusterThatWasSetBackIsReadAnew(t *testing.T) {
	t.Parallel()
	a := newAPI()
	run(t, a, entries(configMaps, "a", "b"), func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
		a.stream(configMaps).Add(live(configMaps, "a", 30))
		a.stream(configMaps).Action(apiwatch.Bookmark, bookmark(40, true)) // without b, which is gone
		mustState(t, m, key(configMaps, "b"), memory.Gone)
		a.mu.Lock()
		a.objects["a"], a.objects["b"] = live(configMaps, "a", 20), live(configMaps, "b", 19)
		a.mu.Unlock()
		a.called("")
		a.stream(configMaps).Stop() // as the server is started anew
		<-time.After(11 * time.Minute)
		synctest.Wait()
		if calls := a.called("watch"); !slices.Equal(calls, []string{
			`watch ConfigMap "40" metadata=true`, `watch ConfigMap "" metadata=true`,
		}) {
			t.Fatalf("calls: %v", calls)
		}
		all := func() {
			a.stream(configMaps).Add(live(configMaps, "a", 20))
			a.stream(configMaps).Add(live(configMaps, "b", 19))
			a.stream(configMaps).Action(apiwatch.Bookmark, bookmark(25, true))
			synctest.Wait()
		}
		all()
		if calls := a.called("watch"); !slices.Equal(calls, []string{`watch ConfigMap "" metadata=true`}) {
			t.Fatalf("calls: %v", calls)
		}
		all()
		for name, version := range map[string]uint64{"a": 20, "b": 19} {
			if known, _ := m.Get(key(configMaps, name)); known.State != memory.Present || known.Version != version {
				t.Errorf("%s: %+v", name, known)
			}
		}
	})
}

// An agent that loses its rights to a kind does not know how its objects are, until it may ask for them.
func TestHealthIsUnknownWithoutRights(t *testing.T) {
	t.Parallel()
	a := newAPI()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil)
	run(t, a, entries(configMaps, "a"), func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
		a.objects["a"] = live(configMaps, "a", 3)
		a.stream(configMaps).Add(live(configMaps, "a", 3))
		a.stream(configMaps).Action(apiwatch.Bookmark, bookmark(7, true))
		synctest.Wait()
		a.mu.Lock()
		a.refuse, a.away = func(schema.GroupVersionKind, metav1.ListOptions) error { return forbidden }, forbidden
		a.mu.Unlock()
		a.stream(configMaps).Stop()
		<-time.After(time.Minute)
		synctest.Wait()
		if s := m.Summary(service); s.Healthy != 0 || !strings.Contains(s.Worst.Message, "Forbidden") {
			t.Errorf("without rights: %+v", s)
		}
		a.mu.Lock()
		a.away = nil
		a.mu.Unlock()
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if s := m.Summary(service); s.Healthy != 1 {
			t.Errorf("with the right to get: %+v", s)
		}
	})
}

// With the API server away nothing is shown as healthy, and nobody knocks all the time.
func TestHealthIsUnknownWithTheServerAway(t *testing.T) {
	t.Parallel()
	a := newAPI()
	run(t, a, entries(configMaps, "a"), func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
		a.stream(configMaps).Add(live(configMaps, "a", 3))
		a.stream(configMaps).Action(apiwatch.Bookmark, bookmark(7, true))
		synctest.Wait()
		a.mu.Lock()
		a.refuse = func(schema.GroupVersionKind, metav1.ListOptions) error {
			return apierrors.NewServiceUnavailable("away")
		}
		a.mu.Unlock()
		a.stream(configMaps).Stop()
		a.called("")
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if calls := a.called("watch"); len(calls) > 80 {
			t.Errorf("%d attempts in ten minutes", len(calls))
		}
		if s := m.Summary(service); s.Healthy != 0 || s.Worst.State != health.Unknown ||
			!strings.Contains(s.Worst.Message, "ServiceUnavailable") {
			t.Errorf("got %+v", s)
		}
		a.mu.Lock()
		a.refuse = nil
		a.mu.Unlock()
		<-time.After(time.Minute)
		synctest.Wait()
		a.stream(configMaps).Action(apiwatch.Bookmark, bookmark(8, false))
		synctest.Wait()
		if s := m.Summary(service); s.Healthy != 1 {
			t.Errorf("got %+v", s)
		}
	})
}

// The stream of a server that hangs stays open: nothing is shown as healthy all the same.
func TestHealthIsUnknownWithAServerThatHangs(t *testing.T) {
	t.Parallel()
	a := newAPI()
	run(t, a, entries(configMaps, "a"), func(t *testing.T, m *memory.Memory, _ *watch.Watcher) {
		a.stream(configMaps).Add(live(configMaps, "a", 3))
		a.stream(configMaps).Action(apiwatch.Bookmark, bookmark(7, true))
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if s := m.Summary(service); s.Healthy != 1 {
			t.Errorf("with a server that answers: %+v", s)
		}
		stall := make(chan struct{})
		a.mu.Lock()
		a.stall = stall
		a.mu.Unlock()
		from := time.Now()
		<-time.After(90 * time.Second)
		synctest.Wait()
		s := m.Summary(service)
		since, err := time.Parse("the API server has not answered since "+time.RFC3339, s.Worst.Message)
		if s.Healthy != 0 || s.Worst.State != health.Unknown || err != nil || since.Before(from) || since.After(from.Add(20*time.Second)) {
			t.Errorf("with a server that hangs: %v, %+v", err, s)
		}
		if told := a.silences.Load(); told != 1 || m.Silence() != s.Worst.Message {
			t.Errorf("with a server that hangs it was told %d times, %q", told, m.Silence())
		}
		a.mu.Lock()
		a.stall = nil
		a.mu.Unlock()
		close(stall)
		<-time.After(20 * time.Second)
		synctest.Wait()
		if s := m.Summary(service); s.Healthy != 1 {
			t.Errorf("with a server that answers again: %+v", s)
		}
		if told := a.silences.Load(); told != 2 || m.Silence() != "" {
			t.Errorf("with a server that answers again it was told %d times, %q", told, m.Silence())
		}
	})
}

func TestRulesReadAKindAnew(t *testing.T) {
	t.Parallel()
	a := newAPI(boats)
	a.kinds[boats] = cluster.Kind{Namespaced: true} // no status of its own
	run(t, a, entries(boats, "dinghy"), func(t *testing.T, m *memory.Memory, w *watch.Watcher) {
		if calls := a.called("Boat"); !slices.Equal(calls, []string{`watch Boat "" metadata=true`}) {
			t.Errorf("calls: %v", calls)
		}
		w.SetRules(service, []*deliveryv1.HealthRule{
			{
				Group: "harbour.dev", Kind: "Boat",
				Healthy: []*deliveryv1.FieldTest{{Path: ".spec.afloat", Values: []string{"true"}}},
			},
		})
		synctest.Wait()
		if calls := a.called("Boat"); !slices.Equal(calls, []string{`watch Boat "" metadata=false`}) {
			t.Errorf("calls: %v", calls)
		}
		boat := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{
				"name": "dinghy", "namespace": "n", "resourceVersion": "4",
				"labels": map[string]any{object.ServiceLabel: service},
			},
			"spec": map[string]any{"afloat": false},
		}}
		a.stream(boats).Add(boat)
		synctest.Wait()
		if known, _ := m.Get(key(boats, "dinghy")); known.Health != health.Progressing {
			t.Errorf("got %+v", known)
		}
		w.SetRules(service, nil)
		synctest.Wait()
		if calls := a.called("Boat"); !slices.Equal(calls, []string{`watch Boat "" metadata=true`}) {
			t.Errorf("calls: %v", calls)
		}
	})
}
