package reconcile

import (
	"testing"

	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// An ordinary object that is held is not applied. A hook of the same name must not have it taken for one that left.
func TestAHeldObjectStaysBesideAHookOfItsName(t *testing.T) {
	t.Parallel()
	ref := object.Ref{Key: object.Key{Kind: "ConfigMap", Namespace: "shop", Name: "a"}, Version: "v1"}
	hook, held := set.Item{Ref: ref, Hook: object.PostSync}, set.Item{Ref: ref, Flags: object.Hold}
	for _, items := range [][]set.Item{{hook, held}, {held, hook}} {
		if !staysUnapplied(items)[ref.Key] {
			t.Errorf("of %v the held one would be removed", items)
		}
	}
	if staysUnapplied([]set.Item{hook})[ref.Key] {
		t.Error("a hook that was not run stays")
	}
}
