package inventory

import (
	"cmp"
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
	// uidKey is the UID that the hub gave the cluster which put the services here whose inventories name no other one.
	uidKey = "uid"
)

// ErrOtherCluster says that this Kubernetes cluster belongs to another cluster of the hub.
var ErrOtherCluster = errors.New("this Kubernetes cluster is another cluster of the hub")

// Belong notes in the cluster, the first time, which of the hub's clusters it is. Belong fails with ErrOtherCluster if
// that is another: an agent that got the wrong kubeconfig or the wrong join token would remove all services here,
// because nobody wants them in its own cluster.
//
// A cluster of the same name may be another one: of a new hub, or joined again after the hub had removed it. uid tells
// them apart; empty: the hub did not say. See IsForeign.
func (s *Store) Belong(ctx context.Context, name, uid string) error {
	found, err := s.maps.Get(ctx, ClusterMap, metav1.GetOptions{})
	isNew := apierrors.IsNotFound(err)
	if isNew {
		found, err = s.noteCluster(ctx, name, uid)
	}
	if err != nil {
		return fmt.Errorf("find out which cluster this is: %w", err)
	}
	noted, _, _ := unstructured.NestedString(found.Object, "data", nameKey)
	if noted == name {
		return s.settle(ctx, found, uid, isNew)
	}
	return fmt.Errorf("%w: it is %q, and the agent joined as %q; nothing was touched. Check --kubeconfig, --context and the join token. "+
		"To make it %q, delete ConfigMap %s in namespace %s: then what %q put there and %q does not want is removed",
		ErrOtherCluster, noted, name, name, ClusterMap, Namespace, noted, name)
}

// noteCluster returns what stands there then: another agent may have been first.
func (s *Store) noteCluster(ctx context.Context, name, uid string) (*unstructured.Unstructured, error) {
	data := map[string]any{nameKey: name}
	if uid != "" {
		data[uidKey] = uid
	}
	note := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": ClusterMap}, "data": data,
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

// settle notes the UID of the cluster, the first time, and keeps which one is noted. all: no service is foreign, since
// the note was made anew.
func (s *Store) settle(ctx context.Context, found *unstructured.Unstructured, uid string, all bool) error {
	noted, _, _ := unstructured.NestedString(found.Object, "data", uidKey)
	if noted == "" && uid != "" {
		if err := unstructured.SetNestedField(found.Object, uid, "data", uidKey); err != nil {
			return fmt.Errorf("note which cluster this is: %w", err)
		}
		if _, err := s.maps.Update(ctx, found, metav1.UpdateOptions{FieldManager: object.FieldManager}); err != nil {
			return fmt.Errorf("note which cluster this is: %w", err)
		}
		noted = uid
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uid, s.notedUID, s.allOwn = uid, noted, all
	return nil
}

// IsForeign tells a service that another cluster of the same name put here, such as that of a hub whose database was
// lost: the hub that there is now has never wanted it, so that hub's word to remove it means nothing.
func (s *Store) IsForeign(record Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uid != "" && !s.allOwn && cmp.Or(record.Cluster, s.notedUID) != s.uid
}

// stamp names the cluster that wants a service, where that is not the noted one. The caller holds mu.
func (s *Store) stamp(record *Record) {
	switch s.uid {
	case "":
	case s.notedUID:
		record.Cluster = ""
	default:
		record.Cluster = s.uid
	}
}
