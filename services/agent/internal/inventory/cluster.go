package inventory

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairlead.dev/services/agent/internal/object"
)

const (
	// ClusterMap is the ConfigMap in Namespace that says which of the hub's clusters this is.
	ClusterMap = "cluster"
	nameKey    = "name"
)

// ErrOtherCluster says that this Kubernetes cluster belongs to another cluster of the hub.
var ErrOtherCluster = errors.New("this Kubernetes cluster is another cluster of the hub")

// Belong notes in the cluster, the first time, which of the hub's clusters it is. Belong fails with ErrOtherCluster if
// that is another: an agent that got the wrong kubeconfig or the wrong join token would remove all services here,
// because nobody wants them in its own cluster.
func (s *Store) Belong(ctx context.Context, name string) error {
	found, err := s.maps.Get(ctx, ClusterMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		found, err = s.noteCluster(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("find out which cluster this is: %w", err)
	}
	noted, _, _ := unstructured.NestedString(found.Object, "data", nameKey)
	if noted == name {
		return nil
	}
	return fmt.Errorf("%w: it is %q, and the agent joined as %q; nothing was touched. Check --kubeconfig, --context and the join token. "+
		"To make it %q, delete ConfigMap %s in namespace %s: then what %q put there and %q does not want is removed",
		ErrOtherCluster, noted, name, name, ClusterMap, Namespace, noted, name)
}

// noteCluster returns what stands there then: another agent may have been first.
func (s *Store) noteCluster(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	note := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": ClusterMap}, "data": map[string]any{nameKey: name},
	}}
	options := metav1.CreateOptions{FieldManager: object.FieldManager}
	made, err := s.maps.Create(ctx, note, options)
	if apierrors.IsNotFound(err) {
		if err := s.namespaces.EnsureNamespace(ctx, Namespace); err != nil {
			return nil, err
		}
		made, err = s.maps.Create(ctx, note, options)
	}
	if apierrors.IsAlreadyExists(err) {
		return s.maps.Get(ctx, ClusterMap, metav1.GetOptions{})
	}
	return made, err
}
