package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

const (
	// insideWidth bounds the lists under way when a namespace is looked into.
	insideWidth = 8
	// insidePage is how many objects of a kind are looked at, at a time.
	insidePage = 50
)

// Inside names an object in a namespace that somebody made and skip does not fit; "" if there is none. What a
// cluster puts into every namespace, or an object brings along, does not count.
func (c *Cluster) Inside(ctx context.Context, namespace string, skip func(metav1.Object) bool) (string, error) {
	kinds, err := c.allNamespaced(ctx)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex // guards found and failed
	var found string
	var failed error
	var running sync.WaitGroup
	work := make(chan namedKind)
	for range insideWidth {
		running.Go(func() {
			for kind := range work {
				name, err := stranger(ctx, c.metadata.Resource(kind.resource).Namespace(namespace), func(meta metav1.Object) bool {
					return skip(meta) || brought(kind.kind, meta)
				})
				mu.Lock()
				switch {
				case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) && ctx.Err() == nil:
					failed = err
				case name != "" && found == "":
					found = kind.kind + " " + namespace + "/" + name
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	for _, kind := range kinds {
		work <- kind
	}
	close(work)
	running.Wait()
	if found != "" {
		return found, nil
	}
	return "", failed
}

// Instance names an object of a kind that skip does not fit; "" if there is none.
func (c *Cluster) Instance(ctx context.Context, gvk schema.GroupVersionKind, skip func(metav1.Object) bool) (string, error) {
	kind, err := c.Kind(ctx, gvk)
	if err != nil {
		return "", err
	}
	return stranger(ctx, c.metadata.Resource(kind.Resource), skip)
}

func stranger(ctx context.Context, objects metadata.ResourceInterface, skip func(metav1.Object) bool) (string, error) {
	options := metav1.ListOptions{Limit: insidePage}
	for {
		page, err := objects.List(ctx, options)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			if !skip(&page.Items[i]) {
				return page.Items[i].Name, nil
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return "", nil
		}
	}
}

// brought tells objects that are in a namespace by themselves, and those that belong to others.
func brought(kind string, meta metav1.Object) bool {
	switch {
	case len(meta.GetOwnerReferences()) > 0:
		return true // as long as its owner is there that one counts
	case kind == "ConfigMap":
		return meta.GetName() == "kube-root-ca.crt" || meta.GetName() == "openshift-service-ca.crt"
	case kind == "ServiceAccount":
		return meta.GetName() == "default"
	case kind == "Endpoints":
		return true // of a Service, which counts
	}
	return false
}

type namedKind struct {
	resource schema.GroupVersionResource
	kind     string
}

// allNamespaced lists the kinds of all groups whose objects live in namespaces and can be listed.
func (c *Cluster) allNamespaced(ctx context.Context) ([]namedKind, error) {
	var kinds []namedKind
	for _, path := range []string{"/api", "/apis"} {
		data, err := c.raw.Get().AbsPath(path).SetHeader("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").Do(ctx).Raw()
		if err != nil {
			return nil, fmt.Errorf("ask the API server for its kinds: %w", err)
		}
		var list groups
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, fmt.Errorf("read the API server's kinds: %w", err)
		}
		for _, group := range list.Items {
			if len(group.Versions) == 0 || group.Metadata.Name == "events.k8s.io" || strings.HasSuffix(group.Metadata.Name, "metrics.k8s.io") {
				continue
			}
			version := group.Versions[0] // the one that the server prefers
			for _, resource := range version.Resources {
				if resource.Scope == "Namespaced" && slices.Contains(resource.Verbs, "list") && resource.ResponseKind.Kind != "Event" && resource.ResponseKind.Kind != "Lease" {
					kinds = append(kinds, namedKind{
						resource: schema.GroupVersionResource{Group: group.Metadata.Name, Version: version.Version, Resource: resource.Resource},
						kind:     resource.ResponseKind.Kind,
					})
				}
			}
		}
	}
	return kinds, nil
}

// groups is what is read of an APIGroupDiscoveryList.
type groups struct {
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Versions []struct {
			Version   string `json:"version"`
			Resources []struct {
				Resource     string   `json:"resource"`
				Scope        string   `json:"scope"`
				Verbs        []string `json:"verbs"`
				ResponseKind struct {
					Kind string `json:"kind"`
				} `json:"responseKind"`
			} `json:"resources"`
		} `json:"versions"`
	} `json:"items"`
}
