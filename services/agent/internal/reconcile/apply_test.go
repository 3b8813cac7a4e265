package reconcile

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// Of a service that was renamed the new name may be heard of before the removal of the old one: that is no failure, as
// it is none where the old one is being removed. A service that keeps the objects is one.
func TestAServiceWaitsForAnotherOneToLetGoOfItsObjects(t *testing.T) {
	t.Parallel()
	store, err := desired.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	services := []desired.Service{{Name: "wanted", Digest: "d"}, {Name: "leaving", Digest: "d"}}
	if err := store.Update(services, nil, 1); err != nil {
		t.Fatal(err)
	}
	if err := store.Update(nil, []string{"leaving"}, 2); err != nil {
		t.Fatal(err)
	}
	const applying = deliveryv1.Phase_PHASE_APPLYING
	for name, test := range map[string]struct {
		owners []string
		since  time.Duration // 0: it is the first attempt
		phase  deliveryv1.Phase
		text   string
	}{
		"one that leaves":             {[]string{"leaving"}, time.Hour, applying, `Waits until service "leaving", which is being removed`},
		"one that may leave":          {[]string{"leaving", "wanted"}, 0, applying, `in case service "wanted" is about to let go of ConfigMap shop/b`},
		"one that stays":              {[]string{"leaving", "wanted"}, time.Minute, 0, `it belongs to service "leaving"`},
		"one that nobody knows":       {[]string{"wanted", "elsewhere"}, 0, 0, `it belongs to service "wanted"`},
		"an object of another tool's": {[]string{""}, 0, 0, "it belongs to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deps := Deps{Desired: store, Inventory: inventory.New(nil, nil)}
			w := newWorker(&site{name: "web", controller: &Controller{Deps: deps}}, nil)
			if test.since > 0 {
				w.taken = time.Now().Add(-test.since)
			}
			var failures []apply.Failure
			for i, owner := range test.owners {
				key := object.Key{Kind: "ConfigMap", Namespace: "shop", Name: string(rune('a' + i))}
				item := set.Item{Ref: object.Ref{Key: key}}
				failures = append(failures, apply.Failure{Item: item, Problem: *apply.Taken(owner)})
			}
			if got := w.takenProblem(failures); got.phase != test.phase || !strings.Contains(got.text, test.text) {
				t.Errorf("got phase %s, %q", got.phase, got.text)
			}
		})
	}
}

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
