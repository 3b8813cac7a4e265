// Package bounds judges what a service may have and see in the cluster by the rules of its project. Each function says
// in a few words what is refused, and "" if nothing is.
package bounds

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/wildcard"
	"fairlead.dev/services/agent/internal/inventory"
)

// Object judges an object by where it will be in the cluster.
func Object(r *deliveryv1.ObjectRules, kind schema.GroupKind, namespaced bool, namespace, name string) (refused string) {
	if !bound(r) {
		return ""
	}
	text := kindText(kind)
	if kind == (schema.GroupKind{Kind: "Namespace"}) {
		namespace = name
	}
	switch {
	case wildcard.Any(r.GetDeniedKinds(), text):
		return "kind " + text
	case !namespaced && !slices.Contains(r.GetKinds(), text): // not by chance, by a pattern
		return fmt.Sprintf("kind %s, which is not in a namespace (spec.kinds has to name it without *)", text)
	case namespaced && len(r.GetKinds()) > 0 && !wildcard.Any(r.GetKinds(), text):
		return "kind " + text
	case namespace == inventory.Namespace && !slices.Contains(r.GetNamespaces(), namespace): // nor here
		return fmt.Sprintf("namespace %s, where the agent is (spec.namespaces has to name it without *)", namespace)
	case namespace != "" && len(r.GetNamespaces()) > 0 && !wildcard.Any(r.GetNamespaces(), namespace):
		return "namespace " + namespace
	}
	return ""
}

// Lookup is what a template asks for. Without a name it is a list, and without a namespace one over all of them.
type Lookup struct {
	Kind            schema.GroupKind
	Namespaced      bool
	Namespace, Name string
}

// Judge judges a lookup of a service in a namespace, as an account ("": as the agent itself). The agent reads more than
// most services are meant to see, and what a template has read is in the objects that it makes, or in an error that
// goes to the hub.
func (l Lookup) Judge(r *deliveryv1.ObjectRules, namespace, account string) (refused string) {
	if !bound(r) {
		return ""
	}
	if l.Namespaced && l.Namespace == "" {
		return fmt.Sprintf("kind %s in all namespaces (name one)", kindText(l.Kind))
	}
	if refused := Object(r, l.Kind, l.Namespaced, l.Namespace, l.Name); refused != "" {
		return refused
	}
	if l.Kind == (schema.GroupKind{Kind: "Secret"}) && l.Namespace != namespace && account == "" {
		return fmt.Sprintf("Secrets outside of the service's namespace %s without an account of its own (spec.sync.impersonate)", namespace)
	}
	return ""
}

// bound tells whether rules say anything of objects.
func bound(r *deliveryv1.ObjectRules) bool {
	return len(r.GetNamespaces())+len(r.GetKinds())+len(r.GetDeniedKinds()) > 0
}

func kindText(kind schema.GroupKind) string {
	if kind.Group == "" {
		return kind.Kind
	}
	return kind.Kind + "." + kind.Group
}
