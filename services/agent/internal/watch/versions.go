package watch

import (
	"context"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.dev/services/agent/internal/object"
)

// sources are objects that the render of a service reads, by name, each with a stream of its metadata.
type sources struct {
	refs []object.Ref
	// versions are what the streams said last; an object that is not there has "", and one that no stream told of is
	// not in it.
	versions map[object.Ref]string
	end      context.CancelFunc // nil: Run has not started the streams
}

// FollowSources has the versions of some objects followed until other ones are named, and tells the service of each
// change. Without refs it reads nothing any more.
func (w *Watcher) FollowSources(service string, refs []object.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.sources[service]
	if before == nil && len(refs) == 0 || before != nil && slices.Equal(before.refs, refs) {
		return
	}
	if before != nil && before.end != nil {
		before.end()
	}
	delete(w.sources, service)
	if len(refs) == 0 {
		return
	}
	w.sources[service] = &sources{refs: refs, versions: map[object.Ref]string{}}
	select {
	case w.follows <- struct{}{}:
	default:
	}
}

// Sources are the versions of the objects that are followed for a service, in the order in which they were named.
// known: the streams have told of all of them.
func (w *Watcher) Sources(service string) (versions []string, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sources[service]
	if s == nil {
		return nil, false
	}
	for _, ref := range s.refs {
		version, ok := s.versions[ref]
		if !ok {
			return nil, false
		}
		versions = append(versions, version)
	}
	return versions, true
}

// VersionOf names a state of an object: no other one has the same.
func VersionOf(obj metav1.Object) string {
	return string(obj.GetUID()) + "/" + obj.GetResourceVersion()
}

// startSources starts the streams that were asked for.
func (w *Watcher) startSources(ctx context.Context, running *sync.WaitGroup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for service, s := range w.sources {
		if s.end != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		s.end = cancel
		for _, ref := range slices.Compact(slices.SortedFunc(slices.Values(s.refs), compareRefs)) {
			running.Go(func() { w.followSource(ctx, service, s, ref) })
		}
	}
}

func compareRefs(a, b object.Ref) int {
	if c := object.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	return strings.Compare(a.Version, b.Version)
}

// followSource follows the version of one object until ctx ends.
func (w *Watcher) followSource(ctx context.Context, service string, s *sources, ref object.Ref) {
	note := func(version string) {
		w.mu.Lock()
		before, known := s.versions[ref]
		s.versions[ref] = version
		w.mu.Unlock()
		if !known || before != version {
			w.noted(service)
		}
	}
	named := false // by a stream that begins
	w.keep(ctx, &stream{
		watcher: w, gvk: ref.GVK(), metadataOnly: true,
		options: metav1.ListOptions{FieldSelector: "metadata.name=" + ref.Name + ",metadata.namespace=" + ref.Namespace},
		begin:   func() { named = false },
		saw: func(obj metav1.Object) {
			if obj.GetName() == ref.Name && obj.GetNamespace() == ref.Namespace {
				named = true
				note(VersionOf(obj))
			}
		},
		gone: func(obj metav1.Object) {
			if obj.GetName() == ref.Name && obj.GetNamespace() == ref.Namespace {
				note("")
			}
		},
		complete: func() {
			if !named {
				note("")
			}
		},
	})
}
