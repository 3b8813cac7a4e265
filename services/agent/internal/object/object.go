// Package object names Kubernetes objects.
package object

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Key is the identity of an object within a cluster. The version is no part of it: an object read
// as apps/v1 and as apps/v1beta1 is the same one.
type Key struct {
	Group, Kind, Namespace, Name string
}

// Ref is a Key and the version to address it by.
type Ref struct {
	Key

	Version string
}

// RefOf is the name of an object.
func RefOf(obj *unstructured.Unstructured) Ref {
	gvk := obj.GroupVersionKind()
	return Ref{
		Key:     Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()},
		Version: gvk.Version,
	}
}

// GVK is the kind as the API names it.
func (r Ref) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// String is the name in messages: "ConfigMap default/hello", "Namespace shop".
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Namespace + "/" + k.Name
}

// IsSecret tells whether the object is a Secret, whose values are shown to nobody.
func (k Key) IsSecret() bool { return k.Group == "" && k.Kind == "Secret" }

// Run names what a hook's object is made for. Hooks may share a name, as Helm allows: they run one after the other.
type Run struct {
	Key

	// Nth of those that share the name, from 0, in the order in which they are written down.
	Nth int `json:"nth,omitempty"`
}

// Compare orders keys, so that what is listed is listed the same way each time.
func Compare(a, b Key) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name),
	)
}
