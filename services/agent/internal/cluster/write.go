package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/object"
)

// Whole reads all of an object, whatever its kind: for fields that are to stay as they are.
func (c *Cluster) Whole(ctx context.Context, ref object.Ref) (*unstructured.Unstructured, error) {
	kind, err := c.kindOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	obj, err := c.objects(kind, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, c.failed(ref, err)
	}
	return obj, nil
}

// Patch sends a JSON patch.
func (c *Cluster) Patch(ctx context.Context, ref object.Ref, patch []byte) error {
	kind, err := c.kindOf(ctx, ref)
	if err != nil {
		return err
	}
	_, err = c.meta(kind, ref.Namespace).Patch(ctx, ref.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: object.FieldManager})
	return c.failed(ref, err)
}

// Replace removes the object with this UID, as it was at this version, and what it owns before it.
func (c *Cluster) Replace(ctx context.Context, ref object.Ref, uid types.UID, version string) error {
	kind, err := c.kindOf(ctx, ref)
	if err != nil {
		return err
	}
	foreground := metav1.DeletePropagationForeground
	err = c.meta(kind, ref.Namespace).Delete(ctx, ref.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}, PropagationPolicy: &foreground,
	})
	return c.failed(ref, err)
}
