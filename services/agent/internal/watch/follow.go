package watch

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/platform/retry"
	"fairlead.dev/services/agent/internal/object"
)

// Last is what was seen of a followed object.
type Last struct {
	// Object as it was seen last: when it was deleted, just before that.
	Object *unstructured.Unstructured
	// Gone: it is not in the cluster any more. Missed: it went while there was no stream, so that Object may be old.
	Gone, Missed bool
	// Live: there is a stream. Without one the object may have changed.
	Live bool
}

// followed is one object with a stream of its own, from the version on that Follow was given: no state in between is
// missed, however soon the object goes.
type followed struct {
	service string
	ref     object.Ref
	uid     types.UID
	place   string
	end     context.CancelFunc // nil: Run has not started it

	last Last
}

// MaxFollowed bounds the objects that have a stream of their own: each is a request that the API server keeps open.
const MaxFollowed = 100

// Follow keeps what is seen of an object from now on, until Unfollow, and tells its service of each change. Above the
// bound an object is not followed, and Last does not know it.
func (w *Watcher) Follow(service string, obj *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.single[obj.GetUID()] != nil {
		return
	}
	streams := 0
	for _, f := range w.single {
		if !f.last.Gone {
			streams++
		}
	}
	if streams >= MaxFollowed {
		w.log.Info("a hook's object has no stream of its own, and is asked for instead", "service", service,
			"object", object.RefOf(obj).String(), "streams", streams)
		return
	}
	w.single[obj.GetUID()] = &followed{
		service: service, ref: object.RefOf(obj), uid: obj.GetUID(), place: obj.GetResourceVersion(), last: Last{Object: obj},
	}
	select {
	case w.follows <- struct{}{}:
	default:
	}
}

// Last is what was seen of an object that is followed.
func (w *Watcher) Last(uid types.UID) (Last, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.single[uid]
	if f == nil {
		return Last{}, false
	}
	return f.last, true
}

// Unfollow ends what is followed for a service.
func (w *Watcher) Unfollow(service string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, f := range w.single {
		if f.service != service {
			continue
		}
		if f.end != nil {
			f.end()
		}
		delete(w.single, uid)
	}
}

// startFollowed starts the streams that were asked for.
func (w *Watcher) startFollowed(ctx context.Context, running *sync.WaitGroup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.single {
		if f.end != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		f.end = cancel
		running.Go(func() { w.followOne(ctx, f) })
	}
}

// followOne follows an object until it is gone or ctx ends.
func (w *Watcher) followOne(ctx context.Context, f *followed) {
	defer f.end()
	mine := func(obj metav1.Object) (*unstructured.Unstructured, bool) {
		whole, ok := obj.(*unstructured.Unstructured)
		return whole, ok && whole.GetUID() == f.uid
	}
	change := func(do func(*Last)) {
		w.mu.Lock()
		do(&f.last)
		gone := f.last.Gone
		w.mu.Unlock()
		w.noted(f.service)
		if gone {
			f.end()
		}
	}
	named := false // by a stream that begins anew
	s := &stream{
		watcher: w, gvk: f.ref.GVK(), place: f.place,
		options: metav1.ListOptions{FieldSelector: "metadata.name=" + f.ref.Name + ",metadata.namespace=" + f.ref.Namespace},
		opened: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			f.last.Live = true
		},
		begin: func() { named = false },
		saw: func(obj metav1.Object) {
			if whole, ok := mine(obj); ok {
				named = true
				change(func(last *Last) { last.Object = whole })
			}
		},
		gone: func(obj metav1.Object) {
			if whole, ok := mine(obj); ok {
				change(func(last *Last) { last.Object, last.Gone = whole, true })
			}
		},
		complete: func() {
			if !named {
				change(func(last *Last) { last.Gone, last.Missed = true, true })
			}
		},
	}
	if f.ref.Namespace == "" {
		s.options.FieldSelector = "metadata.name=" + f.ref.Name
	}
	backoff := retry.Backoff{Floor: retryFloor, Max: retryMax}
	for ctx.Err() == nil {
		heard, err := s.run(ctx)
		w.mu.Lock()
		f.last.Live = false
		w.mu.Unlock()
		if heard {
			backoff.Reset()
		}
		retry.Sleep(ctx, max(backoff.Next(), retryAfter(err)))
	}
}
