package cluster

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"k8s.io/client-go/rest"
)

// Content types of the Kubernetes API in Protobuf. A kind that has no Protobuf, as a custom resource, is refused with NotAcceptable.
const (
	protobufType      = "application/vnd.kubernetes.protobuf"
	protobufWatchType = protobufType + ";stream=watch"
)

// ProtobufWatch opens a watch at a path and returns its frames unread, in Protobuf: a caller decodes the fields that it wants, and no object.
// Errors: those of the API.
func (c *Cluster) ProtobufWatch(ctx context.Context, path string, params url.Values) (io.ReadCloser, error) {
	body, err := withParams(c.streams.raw.Get().AbsPath(path), params).SetHeader("Accept", protobufWatchType).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	return body, nil
}

// ProtobufList returns one page of a list in Protobuf, undecoded. Errors: those of the API, ErrAnswerSize.
func (c *Cluster) ProtobufList(ctx context.Context, path string, params url.Values) ([]byte, error) {
	data, err := withParams(c.raw.Get().AbsPath(path), params).SetHeader("Accept", protobufType).DoRaw(ctx)
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
