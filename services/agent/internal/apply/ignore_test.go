package apply

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/kubeyaml"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// labelled is a cluster with objects to which somebody else has added a label. It keeps what is applied.
type labelled struct {
	API

	sent *unstructured.Unstructured
}

func (*labelled) Namespaced(context.Context, schema.GroupVersionKind) (bool, error) { return true, nil }

func (*labelled) Metadata(context.Context, object.Ref) (*metav1.PartialObjectMetadata, error) {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{
		Manager: "kubectl-label", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:team":{}}}}`),
	}}}}, nil
}

// Whole has no mark: somebody took it off.
func (*labelled) Whole(context.Context, object.Ref) (*unstructured.Unstructured, error) {
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "theirs"}}}}, nil
}

func (l *labelled) Apply(_ context.Context, obj *unstructured.Unstructured, _ bool) (*unstructured.Unstructured, error) {
	l.sent = obj
	return obj, nil
}

// Without its mark an object would leave the streams, be taken for changed by others, and stay when the service goes.
func TestAnObjectWhoseLabelsAreLeftToOthersKeepsItsMark(t *testing.T) {
	t.Parallel()
	api := &labelled{}
	store, err := set.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	building, err := store.Create(set.Target{Service: "web", ID: set.IDOf("d", ""), Namespace: "shop", Scopes: api})
	if err != nil {
		t.Fatal(err)
	}
	defer building.Discard()
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "a", "labels": map[string]any{"team": "ours"}},
	}}
	if err := building.Add(t.Context(), obj, kubeyaml.Position{File: "a.yaml"}); err != nil {
		t.Fatal(err)
	}
	objects, err := building.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = objects.Close() }()
	items, err := objects.Items()
	if err != nil {
		t.Fatal(err)
	}
	a := New(api, NewWidth(), memory.New(func(string) {}), nil)
	for _, pointer := range []string{"/metadata/labels", "/metadata/labels/*"} {
		spec := &deliveryv1.SyncSpec{Ignore: []*deliveryv1.IgnoreRule{{Pointers: []string{pointer}}}}
		if _, err := a.applyObject(t.Context(), Request{Service: "web", Set: objects, Sync: spec}, items[0], true); err != nil {
			t.Fatal(err)
		}
		if labels := api.sent.GetLabels(); labels[object.ServiceLabel] != "web" || labels["team"] != "" {
			t.Errorf("%s: sent %v", pointer, labels)
		}
	}
}
