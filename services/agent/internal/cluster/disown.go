package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/object"
)

// Disown takes the ownership mark off the object with this UID, which stays in the cluster.
func (c *Cluster) Disown(ctx context.Context, ref object.Ref, uid types.UID) error {
	kind, err := c.kindOf(ctx, ref)
	if err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"uid":"` + string(uid) + `","labels":{"` + object.ServiceLabel + `":null}}}`)
	_, err = c.meta(kind, ref.Namespace).Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: object.FieldManager})
	return c.failed(ref, err)
}
