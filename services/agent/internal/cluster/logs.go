package cluster

import (
	"context"
	"io"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// LogOptions say what of a container's log is read.
type LogOptions struct {
	Container string
	// Follow goes on until the container ends, or ctx.
	Follow bool
	// Lines from the end, and bytes from there on; 0: all.
	Lines, Bytes int64
}

// Log reads the log of a container. Errors: those of the API.
func (c *Cluster) Log(ctx context.Context, namespace, pod string, options LogOptions) (io.ReadCloser, error) {
	request := c.streams.raw.Get().AbsPath("api", "v1", "namespaces", namespace, "pods", pod, "log").Param("container", options.Container)
	if options.Follow {
		request = request.Param("follow", "true")
	}
	if options.Lines > 0 {
		request = request.Param("tailLines", strconv.FormatInt(options.Lines, 10))
	}
	if options.Bytes > 0 {
		request = request.Param("limitBytes", strconv.FormatInt(options.Bytes, 10))
	}
	return request.Stream(ctx)
}

// WatchPods follows pods of one namespace, from those that are there on. Errors: those of the API.
func (c *Cluster) WatchPods(ctx context.Context, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
	return c.streams.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace).Watch(ctx, opts)
}
