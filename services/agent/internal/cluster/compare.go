package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/object"
)

// Live reads an object to compare it; nil: there is none. Of Secrets only the metadata is read.
func (c *Cluster) Live(ctx context.Context, ref object.Ref) (*unstructured.Unstructured, error) {
	kind, err := c.kindOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	var live *unstructured.Unstructured
	if secret(ref.GVK()) {
		var meta *metav1.PartialObjectMetadata
		if meta, err = c.meta(kind, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{}); err == nil {
			return wholeMeta(meta)
		}
	} else {
		live, err = c.objects(kind, ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	}
	if err = c.failed(ref, err); apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	return live, err
}

// Rehearse says what an object would be after an apply. Of Secrets only the metadata comes back.
func (c *Cluster) Rehearse(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	ref := object.RefOf(obj)
	kind, err := c.kindOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	force := true
	options := metav1.PatchOptions{FieldManager: object.FieldManager, Force: &force, DryRun: []string{metav1.DryRunAll}}
	if secret(ref.GVK()) {
		meta, err := c.meta(kind, ref.Namespace).Patch(ctx, ref.Name, types.ApplyPatchType, body, options)
		if err != nil {
			return nil, c.failed(ref, err)
		}
		return wholeMeta(meta)
	}
	wanted, err := c.objects(kind, ref.Namespace).Patch(ctx, ref.Name, types.ApplyPatchType, body, options)
	return wanted, c.failed(ref, err)
}

// comparer is the manager of Disputed: it never owns anything.
const comparer = object.FieldManager + "-compare"

// Disputed returns the fields of an object that have another value in the cluster, and an owner there: a dry run of
// another manager, who insists on nothing, is refused for them by name.
func (c *Cluster) Disputed(ctx context.Context, obj *unstructured.Unstructured) (fields []string, err error) {
	ref := object.RefOf(obj)
	kind, err := c.kindOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("encode object: %w", err)
	}
	_, err = c.meta(kind, ref.Namespace).Patch(ctx, ref.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: comparer, DryRun: []string{metav1.DryRunAll}})
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || !apierrors.IsConflict(err) || status.Status().Details == nil {
		return nil, c.failed(ref, err)
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			fields = append(fields, cause.Field)
		}
	}
	if len(fields) == 0 {
		return nil, c.failed(ref, err)
	}
	return fields, nil
}

func secret(gvk schema.GroupVersionKind) bool { return gvk.Group == "" && gvk.Kind == "Secret" }

func wholeMeta(meta *metav1.PartialObjectMetadata) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
	if err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}
