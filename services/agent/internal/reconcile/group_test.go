package reconcile

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/cluster"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// Objects of which the manifests name another API group do not go, so that nobody is asked to confirm it.
func TestTheGuardKnowsObjectsByTheirNewGroup(t *testing.T) {
	t.Parallel()
	var items []set.Item
	var record inventory.Record
	live, served := map[string]types.UID{}, map[string]bool{"networking.k8s.io": true, "extensions": true}
	for _, name := range []string{"a", "b", "c"} {
		key := object.Key{Group: "networking.k8s.io", Kind: "Ingress", Namespace: "shop", Name: name}
		items = append(items, set.Item{Ref: object.Ref{Key: key, Version: "v1"}})
		live[name] = types.UID(name)
		key.Group = "extensions"
		record.Entries = append(record.Entries, inventory.Entry{
			Ref: object.Ref{Key: key, Version: "v1beta1"}, UID: types.UID(name),
		})
	}
	s := &site{name: "web", controller: &Controller{}}
	s.controller.Metadata = func(_ context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error) {
		if !served[ref.Group] {
			return nil, &cluster.UnknownKindError{GVK: ref.GVK()}
		}
		switch uid := live[ref.Name]; uid {
		case "":
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "ingresses"}, ref.Name)
		case "?":
			return nil, errors.New("the API server is away")
		default:
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uid}}, nil
		}
	}
	guards := func() bool {
		t.Helper()
		renamed, err := s.renameGroups(t.Context(), record, items)
		if err != nil {
			t.Fatal(err)
		}
		return guardRemoval(desired.Service{Name: "web"}, renamed, items) != nil
	}
	if guardRemoval(desired.Service{Name: "web"}, record, items) == nil || guards() {
		t.Error("objects that stay are taken for some that go")
	}
	live["a"], live["b"], live["c"] = "repaired", "repaired, too", "likewise" // the record does not know it yet
	if guards() {
		t.Error("objects that were repaired are taken for some that go")
	}
	served = map[string]bool{"networking.k8s.io": true}
	live["a"], live["b"], live["c"] = "", "other", "another"
	if !guards() {
		t.Error("objects that go are taken for some that stay")
	}
	live["a"] = "?"
	if _, err := s.renameGroups(t.Context(), record, items); err == nil {
		t.Error("an object that can't be read is no error")
	}
}
