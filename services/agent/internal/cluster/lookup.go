package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8sjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
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
	// maxLookup bounds a lookup, in bytes of JSON, as the API server sends it and as it is passed on: it is in the
	// agent's memory meanwhile.
	maxLookup = 7 << 20
)

// ErrLookupSize: a lookup finds more than maxLookup.
var ErrLookupSize = fmt.Errorf("it finds more than %d MiB: give it a name or a namespace", maxLookup>>20)

// Lookup reads an object whole, or without a name a list of them, as JSON. Each object is decoded by itself and given
// to change: decoded, a list may take twenty times the room. Nil: there is none, or no such kind.
func (c *Cluster) Lookup(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string,
	change func(*unstructured.Unstructured),
) (json.RawMessage, error) {
	kind, err := c.Kind(ctx, gvk)
	if unknown := (*UnknownKindError)(nil); errors.As(err, &unknown) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	request := func() *rest.Request {
		request := c.raw.Get().AbsPath(rootOf(kind.Resource.GroupVersion())).Resource(kind.Resource.Resource)
		if kind.Namespaced && namespace != "" {
			return request.Namespace(namespace) // which refuses what is no segment of a path, as Name does
		}
		return request
	}
	var found json.RawMessage
	if name == "" {
		found, err = lookupList(ctx, gvk, request, change)
	} else if found, err = readBounded(ctx, request().Name(name), maxLookup); err == nil {
		found, err = changed(gvk, found, change)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// lookupList reads all objects of a kind, page by page.
func lookupList(ctx context.Context, gvk schema.GroupVersionKind, request func() *rest.Request,
	change func(*unstructured.Unstructured),
) (json.RawMessage, error) {
	var all bytes.Buffer
	for page, next := 0, ""; page == 0 || next != ""; page++ {
		text, err := readBounded(ctx, request().Param("limit", strconv.Itoa(lookupPage)).Param("continue", next), maxLookup-all.Len())
		if err != nil {
			return nil, err
		}
		var list struct {
			APIVersion string            `json:"apiVersion"`
			Kind       string            `json:"kind"`
			Metadata   metav1.ListMeta   `json:"metadata"`
			Items      []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, fmt.Errorf("read the list of %s: %w", gvk.Kind, err)
		}
		next = list.Metadata.Continue
		if page == 0 {
			head, err := json.Marshal(map[string]any{
				"apiVersion": list.APIVersion, "kind": list.Kind,
				"metadata": map[string]any{"resourceVersion": list.Metadata.ResourceVersion},
			})
			if err != nil {
				return nil, fmt.Errorf("read the list of %s: %w", gvk.Kind, err)
			}
			all.Write(head[:len(head)-1])
			all.WriteString(`,"items":[`)
		}
		for i, item := range list.Items {
			if page > 0 || i > 0 {
				all.WriteByte(',')
			}
			item, err := changed(gvk, item, change)
			if err != nil {
				return nil, err
			}
			if all.Write(item); all.Len() > maxLookup {
				return nil, ErrLookupSize
			}
		}
	}
	all.WriteString("]}")
	return all.Bytes(), nil
}

// changed decodes an object, which says in a list not always what it is, and encodes it as change leaves it.
func changed(gvk schema.GroupVersionKind, text json.RawMessage, change func(*unstructured.Unstructured)) (json.RawMessage, error) {
	var fields map[string]any
	if err := k8sjson.Unmarshal(text, &fields); err != nil || fields == nil {
		return nil, fmt.Errorf("read %s: %w", gvk.Kind, cmp.Or(err, errors.New("it is no object")))
	}
	obj := &unstructured.Unstructured{Object: fields}
	obj.SetGroupVersionKind(gvk)
	change(obj)
	text, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", gvk.Kind, obj.GetName(), err)
	}
	return text, nil
}

func rootOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

// readBounded reads an answer of so many bytes at most.
func readBounded(ctx context.Context, request *rest.Request, most int) (json.RawMessage, error) {
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(io.LimitReader(body, int64(most)+1))
	if err == nil && len(text) > most {
		err = ErrLookupSize
	}
	return text, err
}
