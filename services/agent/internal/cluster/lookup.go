package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// aggregated asks for all kinds in one answer.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// discovered is what is read of an aggregated answer.
type discovered struct {
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Versions []struct {
			Version   string `json:"version"`
			Resources []struct {
				ResponseKind struct {
					Kind string `json:"kind"`
				} `json:"responseKind"`
			} `json:"resources"`
		} `json:"versions"`
	} `json:"items"`
}

// APIVersions lists what the API server has: "apps/v1", and "apps/v1/Deployment".
func (c *Cluster) APIVersions(ctx context.Context) ([]string, error) {
	var versions []string
	for _, path := range []string{"/api", "/apis"} {
		data, err := c.raw.Get().AbsPath(path).SetHeader("Accept", aggregated).Do(ctx).Raw()
		if err != nil {
			return nil, fmt.Errorf("ask the API server for its kinds: %w", err)
		}
		var list discovered
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, fmt.Errorf("read the API server's kinds: %w", err)
		}
		for _, group := range list.Items {
			for _, version := range group.Versions {
				name := schema.GroupVersion{Group: group.Metadata.Name, Version: version.Version}.String()
				versions = append(versions, name)
				for _, resource := range version.Resources {
					versions = append(versions, name+"/"+resource.ResponseKind.Kind)
				}
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
