package reconcile

import (
	"context"
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
)

// The annotations by which Helm marks the objects of a release. Charts ask for them to find out whether an object that
// `lookup` found is their own.
const (
	releaseName      = "meta.helm.sh/release-name"
	releaseNamespace = "meta.helm.sh/release-namespace"
)

// Lookup is a render.Lookup that gives each object that it finds to change.
type Lookup func(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string, change func(*unstructured.Unstructured)) (json.RawMessage, error)

// lookups answers the lookups of one render, and notes which objects of the service they found. One goroutine uses it.
type lookups struct {
	ask     Lookup
	service desired.Service
	// own are the objects that the service has.
	own map[object.Key]types.UID
	// found are those of them that were asked for by name, each once.
	found []object.Ref
}

func newLookups(ask Lookup, service desired.Service, record inventory.Record) *lookups {
	l := &lookups{ask: ask, service: service, own: make(map[object.Key]types.UID, len(record.Entries))}
	for _, entry := range record.Entries {
		if entry.UID != "" && !entry.Going() {
			l.own[entry.Key] = entry.UID
		}
	}
	return l
}

// lookup is a render.Lookup.
func (l *lookups) lookup(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (json.RawMessage, error) {
	return l.ask(ctx, gvk, namespace, name, func(obj *unstructured.Unstructured) {
		if l.mark(obj) && name != "" {
			l.found = append(l.found, object.RefOf(obj))
		}
	})
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
