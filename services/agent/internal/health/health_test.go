package health_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/object"
)

// api has objects that nobody has written a status to yet.
type api struct{}

func (api) Get(_ context.Context, ref object.Ref) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(ref.GVK())
	obj.SetName(ref.Name)
	return obj, nil
}

func (api) HasStatus(gvk schema.GroupVersionKind) bool { return gvk.Kind == "Certificate" }

// A controller writes the status of a custom resource after it was applied: what looks fine without one
// must be looked at again.
func TestOnlyKindsWithoutAStatusAreSteady(t *testing.T) {
	t.Parallel()
	c := health.New(api{})
	for kind, steady := range map[string]bool{"Certificate": false, "ConfigMap": true} {
		ref := object.Ref{Key: object.Key{Kind: kind, Name: "a"}, Version: "v1"}
		found, err := c.Check(t.Context(), []object.Ref{ref})
		if err != nil || found[0].State != health.Healthy || found[0].Steady != steady {
			t.Errorf("%s: got %+v, %v", kind, found, err)
		}
	}
}
