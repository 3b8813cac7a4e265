package reconcile

import (
	"testing"
	"time"

	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/prune"
)

func leftOf(names ...string) []prune.Left {
	left := make([]prune.Left, 0, len(names))
	for _, name := range names {
		key := object.Key{Kind: "ConfigMap", Namespace: "shop", Name: name}
		left = append(left, prune.Left{
			Entry: inventory.Entry{Ref: object.Ref{Key: key, Version: "v1"}}, Why: "waits for its finalizers: " + name + ".dev/hold",
		})
	}
	return left
}

func TestARemovalHangsOnceTheSameObjectsAreLeftForLong(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	var h headway
	for _, step := range []struct {
		after time.Duration
		left  []prune.Left
		want  time.Duration
	}{
		{0, leftOf("a", "b"), prune.Patience},
		{time.Minute, leftOf("a", "b"), prune.Patience - time.Minute},
		{prune.Patience - 1, leftOf("b"), prune.Patience},
		{prune.Patience, leftOf("c"), prune.Patience}, // of what comes after it
		{2 * prune.Patience, leftOf("c"), 0},
		{3 * prune.Patience, leftOf("c"), -prune.Patience},
	} {
		if got := h.note(step.left, begin.Add(step.after)); got != step.want {
			t.Errorf("after %s: %s, want %s", step.after, got, step.want)
		}
	}
}

func TestARemovalThatHangsNamesWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	namespace := object.Ref{Key: object.Key{Kind: "Namespace", Name: "shop"}, Version: "v1"}
	left := append(leftOf("a", "b"), prune.Left{Entry: inventory.Entry{Ref: namespace}, Why: prune.InTurn})
	const want = "The removal of the service hangs: 3 of its objects are still there. " +
		"ConfigMap shop/a waits for its finalizers: a.dev/hold. ConfigMap shop/b waits for its finalizers: b.dev/hold."
	if got := describeHanging(left); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
