package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"fairlead.dev/services/agent/internal/impersonate"
)

// own is resources that the agent keeps for itself: whoever a context is of, requests are in the agent's own name.
type own struct{ dynamic.ResourceInterface }

func (o own) Create(ctx context.Context, obj *unstructured.Unstructured, options metav1.CreateOptions,
	subresources ...string,
) (*unstructured.Unstructured, error) {
	return o.ResourceInterface.Create(impersonate.Own(ctx), obj, options, subresources...)
}

func (o own) Update(ctx context.Context, obj *unstructured.Unstructured, options metav1.UpdateOptions,
	subresources ...string,
) (*unstructured.Unstructured, error) {
	return o.ResourceInterface.Update(impersonate.Own(ctx), obj, options, subresources...)
}

func (o own) Delete(ctx context.Context, name string, options metav1.DeleteOptions, subresources ...string) error {
	return o.ResourceInterface.Delete(impersonate.Own(ctx), name, options, subresources...)
}

func (o own) Get(ctx context.Context, name string, options metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error) {
	return o.ResourceInterface.Get(impersonate.Own(ctx), name, options, subresources...)
}

// List reads a page, with fewer objects than it may have where these are too large for one answer.
func (o own) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	page, err := o.ResourceInterface.List(impersonate.Own(ctx), options)
	for smaller(err, &options.Limit) {
		page, err = o.ResourceInterface.List(impersonate.Own(ctx), options)
	}
	return page, err
}
