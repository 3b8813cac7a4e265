// Package volumes makes local volumes for claims: a folder on the node that the scheduler chose, which kubelet treats as a disk.
package volumes

import (
	"context"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"fairlead.dev/tools/nodelocal/internal/layout"
)

const (
	class       = "local"
	provisioner = "nodelocal.fairlead.dev/folder"
	// selectedNode is how the scheduler says where a claim's pod will be.
	selectedNode = "volume.kubernetes.io/selected-node"
	// folder of volumes, below that of a node outside and below / on it.
	folder = "var/volumes"
)

// Announce makes the class of volumes, which claims get that name none.
func Announce(ctx context.Context, api kubernetes.Interface) error {
	wait, remove := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete
	_, err := api.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: class, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: provisioner, VolumeBindingMode: &wait, ReclaimPolicy: &remove,
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the storage class: %w", err)
	}
	return nil
}

// Provisioner makes and removes volumes.
type Provisioner struct {
	api    kubernetes.Interface
	queue  workqueue.TypedRateLimitingInterface[any] // *PersistentVolumeClaim or *PersistentVolume as last seen
	stderr io.Writer
}

// New watches claims and volumes by factory, which the caller starts.
func New(api kubernetes.Interface, factory informers.SharedInformerFactory, stderr io.Writer) (*Provisioner, error) {
	p := &Provisioner{api: api, stderr: stderr, queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[any]())}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: p.queue.Add, UpdateFunc: func(_, object any) { p.queue.Add(object) }}
	for _, informer := range []cache.SharedIndexInformer{
		factory.Core().V1().PersistentVolumeClaims().Informer(), factory.Core().V1().PersistentVolumes().Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("watch volumes: %w", err)
		}
	}
	return p, nil
}

// Run works until ctx ends.
func (p *Provisioner) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, p.queue.ShutDown)
	defer stop()
	for {
		object, down := p.queue.Get()
		if down {
			return
		}
		if err := p.handle(ctx, object); err != nil && ctx.Err() == nil {
			fmt.Fprintf(p.stderr, "volumes: %v\n", err)
			p.queue.AddRateLimited(object)
		} else {
			p.queue.Forget(object)
		}
		p.queue.Done(object)
	}
}

func (p *Provisioner) handle(ctx context.Context, object any) error {
	switch object := object.(type) {
	case *corev1.PersistentVolumeClaim:
		if object.Spec.VolumeName == "" && object.DeletionTimestamp == nil && object.Annotations[selectedNode] != "" &&
			object.Spec.StorageClassName != nil && *object.Spec.StorageClassName == class {
			return p.provision(ctx, object)
		}
	case *corev1.PersistentVolume:
		if object.Spec.StorageClassName == class && object.Status.Phase == corev1.VolumeReleased {
			return p.remove(ctx, object)
		}
	}
	return nil
}

func (p *Provisioner) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	node, name := claim.Annotations[selectedNode], "pvc-"+string(claim.UID)
	if err := os.MkdirAll(layout.InLab(node, folder, name), 0o755); err != nil { //nolint:gosec // as a new disk is
		return err
	}
	_, err := p.api.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: class,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/" + folder + "/" + name}},
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (p *Provisioner) remove(ctx context.Context, volume *corev1.PersistentVolume) error {
	node := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
	if err := os.RemoveAll(layout.InLab(node, folder, volume.Name)); err != nil {
		return err
	}
	err := p.api.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
