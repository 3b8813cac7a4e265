package set

import (
	"context"
	"fmt"

	"fairlead.dev/services/agent/internal/bounds"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/mistakes"
	"fairlead.dev/services/agent/internal/object"
)

// checkBounds finds objects that the rules do not allow, where they will be in the cluster.
func (b *Builder) checkBounds(ctx context.Context) error {
	if b.Rules == nil {
		return nil
	}
	var problems mistakes.List
	for _, item := range b.items {
		if item.Flags&object.LeftOut != 0 {
			continue
		}
		namespaced, err := b.scopeOf(ctx, item.Flags, item.GVK())
		if err != nil {
			continue // settle has told it
		}
		why := bounds.Object(b.Rules, item.GVK().GroupKind(), namespaced, item.Namespace, item.Name)
		if why == "" {
			continue
		}
		problems.Add(&kubeyaml.Error{Position: item.Position, Line: item.Position.Line, Problem: fmt.Sprintf(
			"%s: project %q does not allow %s. Take it out, or have the project allow it", item.Key, b.Rules.GetProject(), why)})
	}
	return problems.Err()
}
