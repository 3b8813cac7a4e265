// Package lookup answers what the templates of a chart look up in the cluster. The service's own objects are shown as
// those of its Helm release, and the values of Secrets that a template saw are noted: nobody is to read them in what
// the chart says.
package lookup

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"unicode/utf8"

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

// Ask is a render.Lookup that gives each object that it finds to change.
type Ask func(
	ctx context.Context, gvk schema.GroupVersionKind, namespace, name string, change func(*unstructured.Unstructured),
) (json.RawMessage, error)

// Lookups answers the lookups of one render, and notes which objects of the service they found. One goroutine uses it.
type Lookups struct {
	ask     Ask
	service desired.Service
	// own are the objects that the service has, and may have: an apply that did not come to its end lists them without a
	// UID.
	own map[object.Key]types.UID
	// found are those of them that were asked for by name, each once.
	found []object.Ref
	// hide takes the values of the Secrets that were found, and secrets has them.
	hide    func(values []string)
	secrets []string
}

// New returns the lookups of a render of a service. hide takes the values of each Secret that a template sees.
func New(ask Ask, service desired.Service, record inventory.Record, hide func(values []string)) *Lookups {
	l := &Lookups{ask: ask, service: service, hide: hide, own: make(map[object.Key]types.UID, len(record.Entries))}
	for _, entry := range record.Entries {
		if !entry.Going() {
			l.own[entry.Key] = entry.UID
		}
	}
	return l
}

// LookUp is a render.Lookup.
func (l *Lookups) LookUp(
	ctx context.Context, gvk schema.GroupVersionKind, namespace, name string,
) (json.RawMessage, error) {
	return l.ask(ctx, gvk, namespace, name, func(obj *unstructured.Unstructured) {
		l.concealSecret(obj)
		if l.markRelease(obj) && name != "" {
			l.found = append(l.found, object.RefOf(obj))
		}
	})
}

// Found are the service's own objects that templates asked for by name, each once.
func (l *Lookups) Found() []object.Ref { return l.found }

// Secrets are the texts of Secrets that templates saw: what a chart says may quote them.
func (l *Lookups) Secrets() []string { return l.secrets }

const (
	// longestValue of a Secret that is looked for in texts, in bytes. A longer value is an archive, such as Helm's own
	// releases.
	longestValue = 16 << 10
	// shortestValue of a Secret that is looked for in all that is told of a service. Shorter ones are words of any
	// text, such as names.
	shortestValue = 8
)

// concealSecret notes the values of an object that is a Secret.
func (l *Lookups) concealSecret(obj *unstructured.Unstructured) {
	if !object.RefOf(obj).IsSecret() {
		return
	}
	data, _, _ := unstructured.NestedStringMap(obj.Object, "data")
	var values []string
	for _, text := range data {
		value, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(value) > longestValue || !utf8.Valid(value) {
			continue
		}
		l.secrets = append(l.secrets, desired.SecretsIn(string(value))...)
		if len(value) >= shortestValue {
			values = append(values, string(value))
		}
	}
	l.hide(values)
}

// markRelease shows an object of the service as one of its Helm release.
func (l *Lookups) markRelease(obj *unstructured.Unstructured) bool {
	key := object.RefOf(obj).Key
	uid, isListed := l.own[key]
	if !isListed || uid != obj.GetUID() && object.Owner(obj) != l.service.Name {
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
