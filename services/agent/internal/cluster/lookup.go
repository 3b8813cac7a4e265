package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
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

const (
	// lookupPage is how many objects of a list are asked for at once.
	lookupPage = 100
	// maxLookup bounds what a lookup finds, in bytes of JSON: it is in the agent's memory meanwhile.
	maxLookup = 7 << 20
)

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
		return lookupList(ctx, client)
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

// lookupList reads all objects of a kind, page by page.
func lookupList(ctx context.Context, client dynamic.ResourceInterface) (map[string]any, error) {
	var all *unstructured.UnstructuredList
	size := 0
	for options := (metav1.ListOptions{Limit: lookupPage}); ; {
		page, err := client.List(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			text, err := json.Marshal(page.Items[i].Object)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", page.Items[i].GetName(), err)
			}
			if size += len(text); size > maxLookup {
				return nil, fmt.Errorf("a lookup without a name finds more than %d MiB: give it a name or a namespace", maxLookup>>20)
			}
		}
		options.Continue = page.GetContinue()
		if all == nil {
			all = page
		} else {
			all.Items = append(all.Items, page.Items...)
		}
		if options.Continue == "" {
			all.SetContinue("")
			all.SetRemainingItemCount(nil)
			return all.UnstructuredContent(), nil
		}
	}
}
