package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"fairlead.dev/services/agent/internal/impersonate"
	"fairlead.dev/services/agent/internal/object"
)

// aggregated asks for all kinds in one answer.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// stale is the freshness of what the API server has not heard of lately.
const stale = "Stale"

// group is what is read of an aggregated answer about a group.
type group struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Versions []struct {
		Version   string `json:"version"`
		Freshness string `json:"freshness"`
		Resources []struct {
			Resource     string   `json:"resource"`
			Scope        string   `json:"scope"`
			Verbs        []string `json:"verbs"`
			ResponseKind struct {
				Kind string `json:"kind"`
			} `json:"responseKind"`
		} `json:"resources"`
	} `json:"versions"`
}

// listed is what the API server says it has, which may be a little old.
func (c *Cluster) listed(ctx context.Context) ([]group, error) {
	var all []group
	for _, path := range []string{"/api", "/apis"} {
		data, err := c.raw.Get().AbsPath(path).SetHeader("Accept", aggregated).Do(ctx).Raw()
		if err != nil {
			return nil, fmt.Errorf("ask the API server for its kinds: %w", err)
		}
		var list struct {
			Items []group `json:"items"`
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, fmt.Errorf("read the API server's kinds: %w", err)
		}
		all = append(all, list.Items...)
	}
	return all, nil
}

// Served is a version in which a kind is served now. Empty, without an error: nothing in the cluster serves, or is
// there to serve, such objects, so that there are none.
func (c *Cluster) Served(ctx context.Context, kind schema.GroupKind) (version string, err error) {
	ctx = impersonate.Own(ctx) // the answer is about the cluster, and tells of no object
	versions := []string{"v1"}
	if kind.Group != "" {
		if versions, err = c.versions(ctx, kind.Group); err != nil {
			return "", err
		}
	}
	for _, version := range versions {
		served, err := c.discover(ctx, schema.GroupVersion{Group: kind.Group, Version: version})
		if err != nil {
			return "", fmt.Errorf("ask the API server for the kinds of %s/%s: %w", kind.Group, version, err)
		}
		if _, ok := served[kind.Kind]; ok {
			return version, nil
		}
	}
	if err := c.eachDefinition(ctx, func(name string) bool { return strings.HasSuffix(name, "."+kind.Group) }, func(definition *unstructured.Unstructured) error {
		if resource, defined := ReadDefinition(definition); resource.Group == kind.Group && defined == kind.Kind {
			return &DoubtError{Why: kind.String() + " is defined, and served in no version"}
		}
		return nil
	}); err != nil || len(versions) > 0 {
		return "", err
	}
	// A group that is not served at all, and whose server is registered, may come back.
	services := c.metadata.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	return "", eachMeta(ctx, services, func(service metav1.Object) error {
		if _, group, _ := strings.Cut(service.GetName(), "."); group == kind.Group {
			return &DoubtError{Why: "the server of " + service.GetName() + " does not answer"}
		}
		return nil
	})
}

// pages gives the metadata of objects to each, at most so many pages of a size, until it wants no more. all: they are
// all that there are.
func pages(ctx context.Context, objects metadata.ResourceInterface, size int64, most int,
	each func(*metav1.PartialObjectMetadata) (more bool),
) (all bool, err error) {
	options := metav1.ListOptions{Limit: size}
	for range most {
		page, err := objects.List(ctx, options)
		for smaller(err, &options.Limit) {
			page, err = objects.List(ctx, options)
		}
		if err != nil {
			return false, err
		}
		for i := range page.Items {
			if !each(&page.Items[i]) {
				return false, nil
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return true, nil
		}
	}
	return false, nil
}

// eachMeta gives the metadata of all objects to do, up to an error.
func eachMeta(ctx context.Context, objects metadata.ResourceInterface, do func(metav1.Object) error) error {
	var failed error
	_, err := pages(ctx, objects, listPage, math.MaxInt, func(meta *metav1.PartialObjectMetadata) bool {
		failed = do(meta)
		return failed == nil
	})
	return cmp.Or(failed, err)
}

// Scan gives the metadata of the objects of a kind in a namespace to each, as far as so many pages go. all: they are
// all that there are. Errors: *UnknownKindError, those of the API.
func (c *Cluster) Scan(ctx context.Context, gvk schema.GroupVersionKind, namespace string, most int,
	each func(*metav1.PartialObjectMetadata),
) (all bool, err error) {
	kind, err := c.Kind(ctx, gvk)
	if err != nil {
		return false, err
	}
	all, err = pages(ctx, c.meta(kind, namespace), listPage, most, func(meta *metav1.PartialObjectMetadata) bool {
		each(meta)
		return true
	})
	return all, c.unserved(gvk, err)
}

// Select lists objects of a kind in a namespace, as far as one page of opts goes. Errors: *UnknownKindError, those of
// the API.
func (c *Cluster) Select(ctx context.Context, gvk schema.GroupVersionKind, namespace string, opts metav1.ListOptions) ([]*unstructured.Unstructured, error) {
	kind, err := c.Kind(ctx, gvk)
	if err != nil {
		return nil, err
	}
	page, err := c.objects(kind, namespace).List(ctx, opts)
	if err != nil {
		return nil, c.unserved(gvk, err)
	}
	found := make([]*unstructured.Unstructured, len(page.Items))
	for i := range page.Items {
		found[i] = &page.Items[i]
	}
	return found, nil
}

// versions of a group; none if it is not served.
func (c *Cluster) versions(ctx context.Context, name string) ([]string, error) {
	data, err := c.raw.Get().AbsPath("/apis/" + name).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask the API server for the versions of %s: %w", name, err)
	}
	var found metav1.APIGroup
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, fmt.Errorf("read the versions of %s: %w", name, err)
	}
	var versions []string
	for _, version := range found.Versions {
		versions = append(versions, version.Version)
	}
	return versions, nil
}

// eachDefinition gives do the CustomResourceDefinitions whose names fit.
func (c *Cluster) eachDefinition(ctx context.Context, fits func(name string) bool, do func(*unstructured.Unstructured) error) error {
	ctx = impersonate.Own(ctx)
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	return eachMeta(ctx, c.metadata.Resource(resource), func(meta metav1.Object) error {
		if !fits(meta.GetName()) {
			return nil
		}
		definition, err := c.dynamic.Resource(resource).Get(ctx, meta.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read definition %s: %w", meta.GetName(), err)
		}
		return do(definition)
	})
}

// ReadDefinition is what a CustomResourceDefinition brings, in a version that is served; empty: in none.
func ReadDefinition(definition *unstructured.Unstructured) (resource schema.GroupVersionResource, kind string) {
	resource.Group, _, _ = unstructured.NestedString(definition.Object, "spec", "group")
	resource.Resource, _, _ = unstructured.NestedString(definition.Object, "spec", "names", "plural")
	kind, _, _ = unstructured.NestedString(definition.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, one := range versions {
		if version, ok := one.(map[string]any); ok && version["served"] == true {
			resource.Version, _ = version["name"].(string)
			break
		}
	}
	return resource, kind
}

// established tells a definition that was ever served.
func established(definition *unstructured.Unstructured) bool {
	return object.ConditionOf(definition, "Established").IsTrue()
}
