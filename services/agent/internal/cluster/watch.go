package cluster

import (
	"context"
	"fmt"
	"net/http"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// streams are the clients for what has no bound in time.
type streams struct {
	http     *http.Client
	dynamic  dynamic.Interface
	metadata metadata.Interface
	raw      rest.Interface
}

func openStreams(config *rest.Config) (*streams, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0
	config.QPS = -1 // the watcher spreads its requests itself
	config.Wrap(boundEvents)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	s := &streams{http: client}
	if s.dynamic, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	if s.metadata, err = metadata.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	plain := dynamic.ConfigFor(config)
	plain.GroupVersion = &schema.GroupVersion{}
	if s.raw, err = rest.UnversionedRESTClientForConfigAndClient(plain, client); err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return s, nil
}

// Watch follows the objects of a kind in all namespaces: *unstructured.Unstructured, or with metadataOnly
// *metav1.PartialObjectMetadata. Errors: *UnknownKindError, those of the API.
func (c *Cluster) Watch(ctx context.Context, gvk schema.GroupVersionKind, metadataOnly bool, opts metav1.ListOptions) (watch.Interface, error) {
	kind, err := c.Kind(ctx, gvk)
	if err != nil {
		return nil, err
	}
	var stream watch.Interface
	if metadataOnly {
		stream, err = c.streams.metadata.Resource(kind.Resource).Watch(ctx, opts)
	} else {
		stream, err = c.streams.dynamic.Resource(kind.Resource).Watch(ctx, opts)
	}
	if err != nil {
		return nil, c.unserved(gvk, err)
	}
	return stream, nil
}

// listPage is how many objects a list brings at once.
const listPage = 500

// List gives all objects of a kind in all namespaces to each, page by page, and returns the version that they
// are of. Errors: *UnknownKindError, those of the API.
func (c *Cluster) List(ctx context.Context, gvk schema.GroupVersionKind, metadataOnly bool, opts metav1.ListOptions,
	each func(metav1.Object),
) (version string, err error) {
	kind, err := c.Kind(ctx, gvk)
	if err != nil {
		return "", err
	}
	opts.Limit = listPage
	for {
		var page runtime.Object
		if metadataOnly {
			page, err = c.metadata.Resource(kind.Resource).List(ctx, opts)
		} else {
			page, err = c.dynamic.Resource(kind.Resource).List(ctx, opts)
		}
		if smaller(err, &opts.Limit) {
			continue
		}
		if err != nil {
			return "", c.unserved(gvk, err)
		}
		if err := apimeta.EachListItem(page, func(item runtime.Object) error {
			obj, err := apimeta.Accessor(item)
			if err == nil {
				each(obj)
			}
			return err
		}); err != nil {
			return "", fmt.Errorf("read list: %w", err)
		}
		list, err := apimeta.ListAccessor(page)
		if err != nil {
			return "", fmt.Errorf("read list: %w", err)
		}
		if opts.Continue = list.GetContinue(); opts.Continue == "" {
			return list.GetResourceVersion(), nil
		}
	}
}
