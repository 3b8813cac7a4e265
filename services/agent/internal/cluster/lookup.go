package cluster

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// APIVersions lists what the API server has: "apps/v1", and "apps/v1/Deployment".
func (c *Cluster) APIVersions(ctx context.Context) ([]string, error) {
	listed, err := c.listed(ctx)
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, group := range listed {
		for _, version := range group.Versions {
			name := schema.GroupVersion{Group: group.Metadata.Name, Version: version.Version}.String()
			versions = append(versions, name)
			for _, resource := range version.Resources {
				versions = append(versions, name+"/"+resource.ResponseKind.Kind)
			}
		}
	}
	slices.Sort(versions)
	return slices.Compact(versions), nil
}

// Lookup reads an object whole, or without a name a list of them. Nil: there is none, or no such kind.
func (c *Cluster) Lookup(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (map[string]any, error) {
	kind, err := c.Kind(ctx, gvk)
	if unknown := (*UnknownKindError)(nil); errors.As(err, &unknown) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	client := c.objects(kind, namespace)
	if name == "" {
		// More than this is no business of a template.
		const most = 500
		list, err := client.List(ctx, metav1.ListOptions{Limit: most})
		if err != nil {
			return nil, err
		}
		return list.UnstructuredContent(), nil
	}
	found, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return found.Object, nil
}
