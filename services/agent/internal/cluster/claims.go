package cluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.dev/services/agent/internal/impersonate"
	"fairlead.dev/services/agent/internal/object"
)

// waitsForPod is how a class says so, and the reason of the events.
const waitsForPod = "WaitForFirstConsumer"

// selectedNode is the annotation that the scheduler sets on a claim once a pod that uses it has a node.
const selectedNode = "volume.kubernetes.io/selected-node"

// AwaitsPod tells a claim that gets its volume when the first pod that uses it is scheduled. Its class says so; where
// the agent may not read classes, the events about the claim do. In doubt a claim awaits none.
func (c *Cluster) AwaitsPod(ctx context.Context, claim *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(claim.Object, "status", "phase")
	class, _, _ := unstructured.NestedString(claim.Object, "spec", "storageClassName")
	volume, _, _ := unstructured.NestedString(claim.Object, "spec", "volumeName")
	if phase != "Pending" || class == "" || volume != "" || claim.GetAnnotations()[selectedNode] != "" {
		return false
	}
	ctx = impersonate.Own(ctx)
	found, err := c.Get(ctx, object.Ref{
		Key: object.Key{Group: "storage.k8s.io", Kind: "StorageClass", Name: class}, Version: "v1",
	})
	if apierrors.IsForbidden(err) {
		events, err := c.Select(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Event"}, claim.GetNamespace(),
			metav1.ListOptions{
				FieldSelector: "involvedObject.uid=" + string(claim.GetUID()) + ",reason=" + waitsForPod, Limit: 1,
			})
		return err == nil && len(events) > 0
	}
	if err != nil {
		return false
	}
	mode, _, _ := unstructured.NestedString(found.Object, "volumeBindingMode")
	return mode == waitsForPod
}
