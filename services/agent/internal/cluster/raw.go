package cluster

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Forms in which the API server is asked for objects.
const (
	// Protobuf is refused with NotAcceptable for a kind that has none, as a custom resource.
	Protobuf Form = "application/vnd.kubernetes.protobuf"
	JSON     Form = "application/json"
	// Metadata is JSON of nothing but the metadata.
	Metadata Form = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	// metadataList is Metadata of a list.
	metadataList Form = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// Form is how objects are written in an answer.
type Form string

// RawWatch opens a watch at a path and returns its frames unread: a caller decodes the fields that it wants, and no
// object. Errors: those of the API.
func (c *Cluster) RawWatch(ctx context.Context, form Form, path string, params url.Values) (io.ReadCloser, error) {
	if form == Protobuf {
		form += ";stream=watch"
	}
	body, err := withParams(c.streams.raw.Get().AbsPath(path), params).SetHeader("Accept", string(form)).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	return body, nil
}

// RawList returns one page of a list, undecoded. Where limit objects are too large for one answer, limit is less then.
// Errors: those of the API, ErrAnswerSize.
func (c *Cluster) RawList(
	ctx context.Context, form Form, path string, params url.Values, limit *int64,
) ([]byte, error) {
	if form == Metadata {
		form = metadataList
	}
	ask := func() ([]byte, error) {
		return withParams(c.raw.Get().AbsPath(path), params).Param("limit", strconv.FormatInt(*limit, 10)).
			SetHeader("Accept", string(form)).DoRaw(ctx)
	}
	data, err := ask()
	for smaller(err, limit) {
		data, err = ask()
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	return data, nil
}

func withParams(r *rest.Request, params url.Values) *rest.Request {
	for name, values := range params {
		for _, value := range values {
			r = r.Param(name, value)
		}
	}
	return r
}

// Preferred finds out how a kind is served now, in the version that the API server prefers of those that have it.
// Errors: *UnknownKindError, those of the API.
func (c *Cluster) Preferred(ctx context.Context, kind schema.GroupKind) (Kind, error) {
	versions := []string{"v1"}
	if kind.Group != "" {
		var err error
		if versions, err = c.versions(ctx, kind.Group); err != nil {
			return Kind{}, err
		}
	}
	for _, version := range versions {
		served, err := c.discover(ctx, schema.GroupVersion{Group: kind.Group, Version: version})
		if err != nil {
			return Kind{}, fmt.Errorf("ask the API server for the kinds of %s/%s: %w", kind.Group, version, err)
		}
		if found, ok := served[kind.Kind]; ok {
			return found, nil
		}
	}
	return Kind{}, &UnknownKindError{GVK: kind.WithVersion("")}
}

// Path is where the objects of a kind are, in a namespace or in all; of a kind outside of namespaces it is always the
// same.
func (k Kind) Path(namespace string) string {
	path := rootOf(k.Resource.GroupVersion())
	if k.Namespaced && namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + k.Resource.Resource
}
