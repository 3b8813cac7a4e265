package set

import (
	"context"
	"errors"
	"fmt"
	"slices"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/wildcard"
	"fairlead.dev/services/agent/internal/manifest"
)

// bounds finds objects that the rules do not allow, where they will be in the cluster.
func (b *Builder) bounds(ctx context.Context) error {
	if b.Rules == nil {
		return nil
	}
	var problems []error
	for _, item := range b.items {
		namespaced, err := b.scope(ctx, item.GVK())
		if err != nil {
			continue // settle has told it
		}
		why := refuses(b.Rules, item, namespaced)
		if why == "" {
			continue
		}
		problems = append(problems, &manifest.Error{Position: item.Position, Line: item.Position.Line, Problem: fmt.Sprintf(
			"%s: project %q does not allow %s. Take it out, or have the project allow it", item.Key, b.Rules.GetProject(), why)})
		if len(problems) == maxMistakes {
			break
		}
	}
	return errors.Join(problems...)
}

// refuses says what of an object is out of bounds; empty: nothing.
func refuses(r *deliveryv1.ObjectRules, item Item, namespaced bool) string {
	kind := item.Kind
	if item.Group != "" {
		kind += "." + item.Group
	}
	namespace := item.Namespace
	if item.Group == "" && item.Kind == "Namespace" {
		namespace = item.Name
	}
	switch {
	case wildcard.Any(r.GetDeniedKinds(), kind):
		return "kind " + kind
	case !namespaced && !slices.Contains(r.GetKinds(), kind): // not by chance, by a pattern
		return fmt.Sprintf("kind %s, which is not in a namespace (spec.kinds has to name it without *)", kind)
	case namespaced && len(r.GetKinds()) > 0 && !wildcard.Any(r.GetKinds(), kind):
		return "kind " + kind
	case namespace != "" && len(r.GetNamespaces()) > 0 && !wildcard.Any(r.GetNamespaces(), namespace):
		return "namespace " + namespace
	}
	return ""
}
