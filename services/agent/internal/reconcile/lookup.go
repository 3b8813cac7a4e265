package reconcile

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/render"
)

// The annotations by which Helm marks the objects of a release. Charts ask for them to find out whether an object that
// `lookup` found is their own.
const (
	releaseName      = "meta.helm.sh/release-name"
	releaseNamespace = "meta.helm.sh/release-namespace"
)

// lookups answers the lookups of one render, and notes which objects of the service they found. One goroutine uses it.
type lookups struct {
	ask     render.Lookup
	service desired.Service
	// own are the objects that the service has.
	own map[object.Key]types.UID
	// found are those of them that were asked for by name, each once.
	found []object.Ref
}

func newLookups(ask render.Lookup, service desired.Service, record inventory.Record) *lookups {
	l := &lookups{ask: ask, service: service, own: make(map[object.Key]types.UID, len(record.Entries))}
	for _, entry := range record.Entries {
		if entry.UID != "" && !entry.Going() {
			l.own[entry.Key] = entry.UID
		}
	}
	return l
}

// lookup is a render.Lookup.
func (l *lookups) lookup(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (map[string]any, error) {
	found, err := l.ask(ctx, gvk, namespace, name)
	if err != nil || found == nil {
		return nil, err
	}
	if name != "" {
		obj := &unstructured.Unstructured{Object: found}
		if l.mark(obj) {
			l.found = append(l.found, object.RefOf(obj))
		}
		return found, nil
	}
	items, _ := found["items"].([]any)
	for _, item := range items {
		if fields, ok := item.(map[string]any); ok {
			l.mark(&unstructured.Unstructured{Object: fields})
		}
	}
	return found, nil
}

// mark shows an object of the service as one of its Helm release.
func (l *lookups) mark(obj *unstructured.Unstructured) bool {
	key := object.RefOf(obj).Key
	if uid, ok := l.own[key]; !ok || uid != obj.GetUID() {
		return false
	}
	release := l.service.Render.GetHelm().GetReleaseName()
	if release == "" {
		release = l.service.Name
	}
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[releaseName], annotations[releaseNamespace] = release, l.service.Namespace
	obj.SetAnnotations(annotations)
	return true
}
