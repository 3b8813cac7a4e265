package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	"fairlead.dev/services/agent/internal/object"
)

// Create makes an object that is not there.
func (c *Cluster) Create(ctx context.Context, obj *unstructured.Unstructured) error {
	ref := object.RefOf(obj)
	kind, err := c.kindOf(ctx, ref)
	if err != nil {
		return err
	}
	_, err = c.objects(kind, ref.Namespace).Create(ctx, obj, metav1.CreateOptions{FieldManager: object.FieldManager})
	return c.failed(ref, err)
}

// Annotate sets one annotation of an object.
func (c *Cluster) Annotate(ctx context.Context, ref object.Ref, annotation, value string) error {
	kind, err := c.kindOf(ctx, ref)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{annotation: value}}})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = c.meta(kind, ref.Namespace).Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: object.FieldManager})
	return c.failed(ref, err)
}

// restorer owns what Restore wrote, until Restore has given it to the agent.
const restorer = "fairlead-restore"

// Restore replaces the pod template of a workload, and sets an annotation. All that was written is as if the agent had
// applied it: what the next manifest lacks goes. Restore may be repeated.
func (c *Cluster) Restore(ctx context.Context, ref object.Ref, template map[string]any, annotation, value string) error {
	if err := c.rewrite(ctx, ref, func(live *unstructured.Unstructured) ([]byte, error) {
		annotations := live.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[annotation] = value
		return json.Marshal([]map[string]any{
			{"op": "test", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
			{"op": "replace", "path": "/spec/template", "value": template},
			{"op": "add", "path": "/metadata/annotations", "value": annotations},
		})
	}); err != nil {
		return err
	}
	return c.rewrite(ctx, ref, func(live *unstructured.Unstructured) ([]byte, error) {
		return csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(restorer), object.FieldManager)
	})
}

// rewrite sends the JSON patch that change makes of an object as it is. The patch names the version: if another client
// writes the object in between, change is asked again.
func (c *Cluster) rewrite(ctx context.Context, ref object.Ref, change func(*unstructured.Unstructured) ([]byte, error)) error {
	const attempts = 10
	kind, err := c.kindOf(ctx, ref)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		live, err := c.Get(ctx, ref)
		if err != nil {
			return err
		}
		patch, err := change(live)
		if err != nil {
			return fmt.Errorf("change %s: %w", ref.Key, err)
		}
		if patch == nil {
			return nil
		}
		_, err = c.objects(kind, ref.Namespace).Patch(ctx, ref.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: restorer})
		if again := apierrors.IsConflict(err) || apierrors.IsInvalid(err); !again || attempt == attempts {
			return c.failed(ref, err)
		}
	}
}
