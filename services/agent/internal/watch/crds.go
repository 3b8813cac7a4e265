package watch

import (
	"context"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// crdKind is a CRD itself.
var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"} //nolint:gochecknoglobals // It never changes.

// builtIn are the groups that no CRD makes.
var builtIn = []string{ //nolint:gochecknoglobals // It never changes.
	"", "admissionregistration.k8s.io", "apiregistration.k8s.io", "apps", "authentication.k8s.io", "authorization.k8s.io",
	"autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "extensions",
	"flowcontrol.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io",
	"scheduling.k8s.io", "storage.k8s.io",
}

// followCRDs follows the CRDs of the cluster while there are CRDs, or objects of their kinds, among what is
// followed. When one comes, changes or goes its group is asked for anew, and no other.
func (w *Watcher) followCRDs(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.custom:
		}
		if !w.hasCustom() {
			continue
		}
		w.whileCustom(ctx)
	}
}

func (w *Watcher) hasCustom() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind := range w.followers {
		if kind.GroupKind() == crdKind.GroupKind() || !slices.Contains(builtIn, kind.Group) {
			return true
		}
	}
	return false
}

// whileCustom follows the CRDs until nothing needs it any more.
func (w *Watcher) whileCustom(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.keep(ctx, w.crds())
	}()
	defer func() {
		cancel()
		<-ended
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.custom:
			if !w.hasCustom() {
				return
			}
		}
	}
}

// crds is the stream of CRDs. The stream remembers their versions, so that what changed between two streams is found.
func (w *Watcher) crds() *stream {
	known := map[string]string{} // version by name
	var named map[string]bool
	first := true
	return &stream{
		watcher: w, gvk: crdKind, metadataOnly: true,
		begin: func() { named = map[string]bool{} },
		saw: func(obj metav1.Object) {
			if named != nil {
				named[obj.GetName()] = true
			}
			if known[obj.GetName()] != obj.GetResourceVersion() {
				known[obj.GetName()] = obj.GetResourceVersion()
				if !first {
					w.changed(obj.GetName())
				}
			}
		},
		gone: func(obj metav1.Object) {
			delete(known, obj.GetName())
			w.changed(obj.GetName())
		},
		complete: func() {
			for _, name := range slices.Sorted(maps.Keys(known)) {
				if !named[name] {
					delete(known, name)
					w.changed(name)
				}
			}
			if first {
				w.retryUnknown()
			}
			named, first = nil, false
		},
	}
}

// changed is told that the CRD of this name came, changed or went.
func (w *Watcher) changed(name string) {
	_, group, _ := strings.Cut(name, ".")
	w.api.Refresh(group)
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind, f := range w.followers {
		if kind.Group == group {
			f.retry()
		}
	}
}

// retryUnknown lets all kinds of CRDs try again: what they were told may be from before the first look.
func (w *Watcher) retryUnknown() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind, f := range w.followers {
		if !slices.Contains(builtIn, kind.Group) {
			f.retry()
		}
	}
}
