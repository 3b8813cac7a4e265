package apply

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/order"
	"fairlead.dev/services/agent/internal/set"
	"fairlead.dev/services/agent/internal/watch"
)

// holding is a cluster with one object of each kind.
type holding struct {
	API

	objects   map[string]*unstructured.Unstructured // by kind
	awaitsPod bool
	asked     int   // for metadata
	silent    error // in place of metadata
	applied   []string
}

func (*holding) HasStatus(schema.GroupVersionKind) bool { return false }

func (h *holding) Apply(_ context.Context, obj *unstructured.Unstructured, _ bool) (*unstructured.Unstructured, error) {
	h.applied = append(h.applied, obj.GetKind()+"/"+obj.GetName())
	return obj, nil
}

func (h *holding) Get(_ context.Context, ref object.Ref) (*unstructured.Unstructured, error) {
	if obj := h.objects[ref.Kind]; obj != nil {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: ref.Kind}, ref.Name)
}

func (h *holding) Metadata(ctx context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error) {
	h.asked++
	obj, err := h.Get(ctx, ref)
	if err = cmp.Or(h.silent, err); err != nil {
		return nil, err
	}
	return &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{UID: obj.GetUID(), Annotations: obj.GetAnnotations()},
	}, nil
}

func (*holding) Select(
	context.Context, schema.GroupVersionKind, string, metav1.ListOptions,
) ([]*unstructured.Unstructured, error) {
	return nil, nil
}

func (h *holding) Delete(_ context.Context, ref object.Ref, _ types.UID) error {
	delete(h.objects, ref.Kind)
	return nil
}

// blind sees nothing of objects.
type blind struct{}

func (blind) Follow(string, *unstructured.Unstructured) {}
func (blind) Last(types.UID) (watch.Last, bool)         { return watch.Last{}, false }
func (blind) Unfollow(string)                           {}

func newApplier(api API) *Applier { return New(api, NewWidth(), memory.New(func(string) {}), blind{}) }

func refOf(group, kind, name string) object.Ref {
	return object.Ref{Key: object.Key{Group: group, Kind: kind, Namespace: "shop", Name: name}, Version: "v1"}
}

func madeOf(ref object.Ref, status map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	obj.SetGroupVersionKind(ref.GVK())
	obj.SetNamespace(ref.Namespace)
	obj.SetName(ref.Name)
	obj.SetUID(types.UID("uid of " + ref.Name))
	return obj
}

func failedJob(ref object.Ref) *unstructured.Unstructured {
	return madeOf(ref, map[string]any{"conditions": []any{map[string]any{
		"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the limit",
	}}})
}

// What has failed for good becomes healthy by no wait.
func TestAWaveDoesNotWaitForWhatHasFailed(t *testing.T) {
	t.Parallel()
	web, job, pod := refOf("apps", "Deployment", "web"), refOf("batch", "Job", "migrate"), refOf("", "Pod", "check")
	for name, test := range map[string]struct {
		objects []*unstructured.Unstructured
		overdue bool
		why     string
	}{
		"a Job that failed": {
			[]*unstructured.Unstructured{failedJob(job), madeOf(pod, map[string]any{"phase": "Running"})},
			true,
			"Job shop/migrate has failed (BackoffLimitExceeded: Job has reached the limit), and 2 more objects",
		},
		"a Pod that failed": {
			[]*unstructured.Unstructured{
				madeOf(job, nil), madeOf(pod, map[string]any{"phase": "Failed", "message": "it was evicted"}),
			},
			true,
			"Pod shop/check has failed (it was evicted), and 2 more objects",
		},
		"they run": {
			[]*unstructured.Unstructured{madeOf(job, nil), madeOf(pod, map[string]any{"phase": "Running"})},
			false,
			"Deployment shop/web is not healthy yet (",
		},
	} {
		there := &holding{objects: map[string]*unstructured.Unstructured{"Deployment": madeOf(web, nil)}}
		for _, obj := range test.objects {
			there.objects[obj.GetKind()] = obj
		}
		items := []set.Item{{Ref: web}, {Ref: job}, {Ref: pod}}
		a, request := newApplier(there), Request{Service: "web"}
		p := a.newProgress(request, items, []order.Step{{Items: items, Gate: true, Timeout: time.Hour}})
		got := a.Advance(t.Context(), request, p)
		if got.Waits == nil || got.Waits.Overdue != test.overdue || !strings.HasPrefix(got.Waits.Why, test.why) {
			t.Errorf("%s: got %+v", name, got.Waits)
		}
	}
}

// AwaitsPod is what the class of a claim says, or the events about it.
func (h *holding) AwaitsPod(context.Context, *unstructured.Unstructured) bool { return h.awaitsPod }

// A claim whose first pod comes in a later wave gets no volume before: no wave and no hook waits for it. The watch may
// have seen the claim before anything said that it waits.
func TestNothingWaitsForAClaimThatWaitsForItsPod(t *testing.T) {
	t.Parallel()
	claim := refOf("", "PersistentVolumeClaim", "data")
	for _, awaits := range []bool{true, false} {
		there := &holding{awaitsPod: awaits, objects: map[string]*unstructured.Unstructured{
			claim.Kind: madeOf(claim, map[string]any{"phase": "Pending"}),
		}}
		a, request, items := newApplier(there), Request{Service: "web"}, []set.Item{{Ref: claim, Sum: 1}}
		a.memory.Track("web", []inventory.Entry{{Ref: claim, Sum: 1, UID: "uid of data"}})
		a.memory.Saw(claim.GVK(), there.objects[claim.Kind], 0, health.Health{State: health.Progressing})
		p := a.newProgress(request, items, []order.Step{{Items: items, Gate: true, Timeout: time.Hour}})
		if got := a.Advance(t.Context(), request, p); (got.Waits == nil) != awaits {
			t.Errorf("it awaits its pod: %t, and the wave waits for %+v", awaits, got.Waits)
		}
		hooks := []set.Item{{Ref: claim, Hook: object.PreSync}}
		p = a.newProgress(request, hooks, nil)
		p.made[hooks[0].Run()] = "uid of data"
		if done, problem := a.lookAtHook(t.Context(), request, p, hooks[0]); done != awaits || problem != nil {
			t.Errorf("it awaits its pod: %t, and the hook has ended: %t, %v", awaits, done, problem)
		}
	}
}

// A hook whose policy deletes it when it fails leaves nothing in the cluster but what the record says.
func TestAFailedHookWhoseObjectWentIsNotRunAgain(t *testing.T) {
	t.Parallel()
	item := set.Item{Ref: refOf("batch", "Job", "migrate"), Hook: object.PreSync, Flags: object.DeleteFailed}
	request := Request{Service: "web", Digest: "d1"}
	var noted inventory.Progress
	request.Note = func(_ context.Context, ran, failed []object.Run) error {
		noted = inventory.Progress{Digest: "d1", Ran: ran, Failed: failed}
		return nil
	}
	job := failedJob(item.Ref)
	job.SetAnnotations(map[string]string{runAnnotation: sealedRun(request, item)})
	there := &holding{objects: map[string]*unstructured.Unstructured{"Job": job}}
	run := func() Result {
		a := newApplier(there)
		return a.Advance(t.Context(), request, a.BeginHooks(request, []set.Item{item}, object.PreSync))
	}
	if got := run(); !got.Final || len(there.objects) > 0 || !slices.Equal(noted.Failed, []object.Run{item.Run()}) {
		t.Fatalf("got %+v, noted %+v, left %v", got, noted, there.objects)
	}
	request.Record.Progress = noted
	const want = "the hook failed before, and its object is gone"
	if got := run(); !got.Final || len(got.Failures) != 1 || got.Failures[0].Problem.Text != want {
		t.Errorf("after a restart: %+v", got)
	}
	for name, other := range map[string]Request{
		"another digest": {Service: "web", Digest: "d2", Record: request.Record},
		"again":          {Service: "web", Digest: "d1", Record: request.Record, Again: true},
	} {
		if newApplier(there).BeginHooks(other, []set.Item{item}, object.PreSync).hasFailed(item) {
			t.Errorf("%s: the hook is not run", name)
		}
	}
}

// After a start the hold of an object is known by no watch yet. The object is asked for before it is changed, and only
// then: what was seen, or was not made before, costs no request.
func TestAHoldIsFoundBeforeTheFirstWatch(t *testing.T) {
	t.Parallel()
	ref := refOf("", "ConfigMap", "a")
	const manifest = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
	objects, items := renderedSet(t, &touched{}, manifest)
	entry := inventory.Entry{Ref: ref, UID: "uid of a", Sum: items[0].Sum + 1}
	type outcome struct{ applied, held, failed, asked int }
	for name, test := range map[string]struct {
		annotations map[string]string
		change      func(*holding, *inventory.Entry)
		isSeen      bool
		want        outcome
	}{
		"held":     {map[string]string{object.HoldAnnotation: "incident"}, nil, false, outcome{held: 1, asked: 1}},
		"not held": {nil, nil, false, outcome{applied: 1, asked: 1}},
		"seen":     {nil, nil, true, outcome{applied: 1}},
		"gone":     {nil, func(h *holding, _ *inventory.Entry) { clear(h.objects) }, false, outcome{applied: 1, asked: 1}},
		"new":      {nil, func(_ *holding, e *inventory.Entry) { e.UID, e.Sum = "", 0 }, false, outcome{applied: 1}},
		"as wanted": {
			map[string]string{object.HoldAnnotation: "incident"},
			func(_ *holding, e *inventory.Entry) { e.Sum = items[0].Sum },
			false,
			outcome{},
		},
		"no answer": {
			nil,
			func(h *holding, _ *inventory.Entry) { h.silent = errors.New("the API server is away") },
			false,
			outcome{failed: 1, asked: 1},
		},
	} {
		live, entry := madeOf(ref, nil), entry
		live.SetAnnotations(test.annotations)
		there := &holding{objects: map[string]*unstructured.Unstructured{ref.Kind: live}}
		if test.change != nil {
			test.change(there, &entry)
		}
		a := newApplier(there)
		entries := []inventory.Entry{entry}
		a.memory.Track("web", entries)
		if test.isSeen {
			a.memory.Saw(ref.GVK(), live, 0, health.Health{})
		}
		request := Request{Service: "web", Set: objects, Record: inventory.Record{Service: "web", Entries: entries}}
		result := a.Advance(t.Context(), request, a.newProgress(request, items, []order.Step{{Items: items}}))
		got := outcome{len(there.applied), len(result.Held), len(result.Failures), there.asked}
		if got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

// An agent that ends in the middle of an apply leaves objects that no list says to be made. People may hold them by the
// time that the next one goes on.
func TestAHoldOfAnObjectThatAnInterruptedApplyMadeIsFound(t *testing.T) {
	t.Parallel()
	ref := refOf("", "ConfigMap", "a")
	items := []set.Item{{Ref: ref, Sum: 2}}
	for _, held := range []int{0, 1} {
		there := &fixed{meta: madeByShop()}
		there.meta.Name, there.meta.Namespace = ref.Name, ref.Namespace
		if held > 0 {
			there.meta.Annotations = map[string]string{object.HoldAnnotation: "incident"}
		}
		a, record := newApplier(there), inventory.Record{Service: "shop", Entries: []inventory.Entry{{Ref: ref}}}
		a.memory.Track("shop", record.Entries)
		_, strangers, failures := a.Strangers(t.Context(), Request{Service: "shop", Record: record}, items)
		needed, holds := a.Needed("shop", items, record)
		if len(strangers)+len(failures) > 0 || len(holds) != held || len(needed) != 1-held {
			t.Errorf("strangers %v, failures %v; needed %v, held %v, want %d", strangers, failures, needed, holds, held)
		}
	}
}
