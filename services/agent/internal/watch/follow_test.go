package watch_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/watch"
)

// boat is an object with a status.
func boat(uid string, version int, phase string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"phase": phase}}}
	obj.SetGroupVersionKind(boats)
	obj.SetNamespace("n")
	obj.SetName("one")
	obj.SetUID(types.UID(uid))
	obj.SetResourceVersion(fmt.Sprint(version))
	return obj
}

func mustLast(t *testing.T, w *watch.Watcher, phase string, gone, missed bool) {
	t.Helper()
	synctest.Wait()
	last, ok := w.Last("uid-1")
	if !ok {
		t.Fatal("it is not followed")
	}
	got, _, _ := unstructured.NestedString(last.Object.Object, "status", "phase")
	if got != phase || last.Gone != gone || last.Missed != missed {
		t.Errorf("got %s, gone: %t, missed: %t; want %s, %t, %t", got, last.Gone, last.Missed, phase, gone, missed)
	}
}

// An object's state just before it went is known, however soon it goes.
func TestLastStateOfAFollowedObject(t *testing.T) {
	t.Parallel()
	a := newAPI(boats)
	run(t, a, nil, func(t *testing.T, _ *memory.Memory, w *watch.Watcher) {
		w.Follow(service, boat("uid-1", 4, "building"))
		mustLast(t, w, "building", false, false)
		if opts := a.options[boats]; opts.ResourceVersion != "4" ||
			opts.FieldSelector != "metadata.name=one,metadata.namespace=n" {
			t.Errorf("asked with %+v", opts)
		}
		a.stream(boats).Modify(boat("uid-1", 5, "afloat"))
		mustLast(t, w, "afloat", false, false)
		a.stream(boats).Delete(boat("uid-1", 6, "sold"))
		mustLast(t, w, "sold", true, false)
		w.Unfollow(service)
		if _, ok := w.Last("uid-1"); ok {
			t.Error("it is still followed")
		}
	})
}

// An object that went while there was no stream is gone, whatever has its name now, and nobody knows how it ended.
func TestFollowedObjectThatWentUnseen(t *testing.T) {
	t.Parallel()
	a := newAPI(boats)
	run(t, a, nil, func(t *testing.T, _ *memory.Memory, w *watch.Watcher) {
		w.Follow(service, boat("uid-1", 4, "building"))
		synctest.Wait()
		status := apierrors.NewResourceExpired("too old").Status()
		a.stream(boats).Error(&status)
		<-time.After(time.Minute)
		synctest.Wait()
		a.stream(boats).Add(boat("uid-2", 20, "afloat"))
		mustLast(t, w, "building", false, false)
		a.stream(boats).Action(apiwatch.Bookmark, bookmark(21, true))
		mustLast(t, w, "building", true, true)
	})
}

// However many hooks run side by side, the streams are bounded; an object that went makes room.
func TestFollowedObjectsAreBounded(t *testing.T) {
	t.Parallel()
	a := newAPI(boats)
	run(t, a, nil, func(t *testing.T, _ *memory.Memory, w *watch.Watcher) {
		named := func(i int) *unstructured.Unstructured {
			obj := boat(fmt.Sprintf("uid-%d", i), 4, "building")
			obj.SetName(fmt.Sprintf("boat-%d", i))
			return obj
		}
		for i := range watch.MaxFollowed + 1 {
			w.Follow(service, named(i))
			synctest.Wait()
		}
		if _, ok := w.Last(types.UID(fmt.Sprintf("uid-%d", watch.MaxFollowed))); ok {
			t.Error("there is one stream too many")
		}
		gone := named(watch.MaxFollowed - 1)
		gone.SetResourceVersion("5")
		a.stream(boats).Delete(gone) // the latest stream
		synctest.Wait()
		w.Follow(service, named(watch.MaxFollowed))
		if _, ok := w.Last(types.UID(fmt.Sprintf("uid-%d", watch.MaxFollowed))); !ok {
			t.Error("an object that went makes no room")
		}
	})
}
