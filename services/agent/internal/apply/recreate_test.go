package apply

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// fixed is a cluster with an object that can't be changed.
type fixed struct {
	API

	meta    metav1.PartialObjectMetadata
	spec    map[string]any
	deleted int
}

func (f *fixed) Metadata(context.Context, object.Ref) (*metav1.PartialObjectMetadata, error) {
	return &f.meta, nil
}

func (f *fixed) Get(context.Context, object.Ref) (*unstructured.Unstructured, error) {
	return &unstructured.Unstructured{Object: map[string]any{"spec": f.spec}}, nil
}

func (f *fixed) Replace(context.Context, object.Ref, types.UID, string) error {
	f.deleted++
	return nil
}

// madeByShop is the metadata of an object that service shop has made.
func madeByShop() metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		UID: "1", Labels: map[string]string{object.ServiceLabel: "shop"},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: object.FieldManager, Operation: metav1.ManagedFieldsOperationApply},
		},
	}}
}

// What is deleted to be made anew takes no data along, and is the service's.
func TestWhatIsNotDeletedToBeMadeAnew(t *testing.T) {
	t.Parallel()
	ours := madeByShop()
	policy := func(whenDeleted string) map[string]any {
		return map[string]any{"persistentVolumeClaimRetentionPolicy": map[string]any{"whenDeleted": whenDeleted}}
	}
	const (
		again   = "is being deleted, to be made anew"
		strange = "it can't be changed to what is wanted, and was not made by a service: " +
			"only those are deleted to be made anew"
		claims = "it can't be changed to what is wanted, and is not deleted to be made anew, since its claims, and the " +
			"data in them, would go with it (persistentVolumeClaimRetentionPolicy.whenDeleted: Delete)"
	)
	item := set.Item{Ref: object.Ref{
		Key: object.Key{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "db"}, Version: "v1",
	}}
	for name, test := range map[string]struct {
		cluster fixed
		want    string
		deleted int
	}{
		"its claims stay":       {fixed{meta: ours, spec: policy("Retain")}, again, 1},
		"it says nothing":       {fixed{meta: ours}, again, 1},
		"its claims go with it": {fixed{meta: ours, spec: policy("Delete")}, claims, 0},
		"it is nobody's":        {fixed{}, strange, 0},
	} {
		a := New(&test.cluster, NewWidth(), memory.New(func(string) {}), nil)
		got, problem := a.recreateObject(t.Context(), item)
		if problem != nil {
			got = problem.Text
		}
		if got != test.want || test.cluster.deleted != test.deleted {
			t.Errorf("%s: %q, deleted %d times", name, got, test.cluster.deleted)
		}
	}
}
