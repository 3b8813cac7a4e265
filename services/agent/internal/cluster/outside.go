package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Usage is what nodes use, as metrics.k8s.io says: CPU in thousandths of a core, memory in bytes.
type Usage struct {
	Nodes, CPU, Memory int64
}

// nodeMetrics is what is read of the metrics of a node.
type nodeMetrics struct {
	Usage struct{ CPU, Memory string }
}

// add adds what a node uses. Of a node may nothing be known yet.
func (u *Usage) add(n nodeMetrics) {
	cpu, err := quantity.ParseQuantity(n.Usage.CPU)
	if err != nil {
		return
	}
	memory, err := quantity.ParseQuantity(n.Usage.Memory)
	if err != nil {
		return
	}
	u.Nodes++
	u.CPU += cpu.MilliValue()
	u.Memory += memory.Value()
}

// Usage asks what nodes use. Errors: those of the API; NotFound means that nothing in the cluster serves
// metrics.k8s.io.
func (c *Cluster) Usage(ctx context.Context) (u Usage, err error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	body, err := c.streams.raw.Get().AbsPath("/apis/metrics.k8s.io/v1beta1/nodes").SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return u, fmt.Errorf("ask what nodes use: %w", err)
	}
	defer func() { _ = body.Close() }()
	if err := eachNode(body, u.add); err != nil {
		return Usage{}, fmt.Errorf("read what nodes use: %w", err)
	}
	return u, nil
}

// eachNode reads a list in JSON and gives its items to do, one by one: the list of a large cluster has megabytes.
func eachNode(list io.Reader, do func(nodeMetrics)) error {
	decoder := json.NewDecoder(list)
	if err := expect(decoder, '{'); err != nil {
		return err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		if name != "items" {
			var other json.RawMessage
			if err := decoder.Decode(&other); err != nil {
				return err
			}
			continue
		}
		begin, err := decoder.Token()
		switch {
		case err != nil:
			return err
		case begin == nil:
			continue // null is a list of nothing
		case begin != json.Delim('['):
			return unexpected(decoder, begin, '[')
		}
		for decoder.More() {
			var item nodeMetrics
			if err := decoder.Decode(&item); err != nil {
				return err
			}
			do(item)
		}
		if err := expect(decoder, ']'); err != nil {
			return err
		}
	}
	return expect(decoder, '}')
}

func expect(decoder *json.Decoder, want json.Delim) error {
	got, err := decoder.Token()
	if err == nil && got != want {
		err = unexpected(decoder, got, want)
	}
	return err
}

func unexpected(decoder *json.Decoder, got json.Token, want json.Delim) error {
	return fmt.Errorf("%v at byte %d, want %v", got, decoder.InputOffset(), want)
}

// DeprecatedAPI is a version of an API that a later Kubernetes does not have.
type DeprecatedAPI struct {
	schema.GroupVersionResource
	// Removed is the first Kubernetes without it, such as 1.25; empty: none is known yet.
	Removed string
}

const (
	// deprecatedMetric counts requests of such APIs since the API server began.
	deprecatedMetric = "apiserver_requested_deprecated_apis"
	// maxDeprecated bounds the deprecated APIs that are remembered: Kubernetes has a few dozens, custom resources can
	// have any number.
	maxDeprecated = 256
	// metricsTimeout bounds the reading of metrics, which are some megabytes.
	metricsTimeout = time.Minute
	// maxMetricLine bounds a line of them, in bytes: a longer one is left out.
	maxMetricLine = 64 << 10
	// warned is how long a warning of the API server counts. Watches, which each bring it anew, stand an hour at most.
	warned = 24 * time.Hour
)

// RequestedDeprecated asks one API server which deprecated APIs were requested, by anybody, since it began. Kubernetes'
// own controllers are among those who request them. Errors: those of the API.
func (c *Cluster) RequestedDeprecated(ctx context.Context) (out []DeprecatedAPI, err error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	body, err := c.streams.raw.Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the metrics of the API server: %w", err)
	}
	defer func() { _ = body.Close() }()
	lines := bufio.NewReaderSize(body, maxMetricLine)
	for {
		line, err := lines.ReadSlice('\n')
		cut := errors.Is(err, bufio.ErrBufferFull) // a line that is too long is of another metric
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return nil, fmt.Errorf("read the metrics of the API server: %w", err)
		}
		if !cut {
			one, ok := parseDeprecated(strings.TrimSuffix(string(line), "\n"))
			if ok && len(out) < maxDeprecated && !slices.Contains(out, one) {
				out = append(out, one)
			}
		}
		if last {
			return out, nil
		}
	}
}

// parseDeprecated reads a line such as
// apiserver_requested_deprecated_apis{group="policy",removed_release="1.25",resource="poddisruptionbudgets",subresource="",version="v1beta1"}
// 1.
func parseDeprecated(line string) (one DeprecatedAPI, ok bool) {
	line, ok = strings.CutPrefix(line, deprecatedMetric+"{")
	if !ok {
		return one, false
	}
	labels, value, ok := strings.Cut(line, "} ")
	if !ok || value == "0" {
		return one, false
	}
	for name, text := range labelsOf(labels) {
		switch name {
		case "group":
			one.Group = text
		case "version":
			one.Version = text
		case "resource":
			one.Resource = text
		case "removed_release":
			one.Removed = text
		}
	}
	return one, one.Version != "" && one.Resource != ""
}

// labelsOf goes over labels of a metric whose values have no quotes, as names of APIs have none.
func labelsOf(text string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for text != "" {
			name, rest, ok := strings.Cut(text, `="`)
			if !ok {
				return
			}
			value, after, ok := strings.Cut(rest, `"`)
			if !ok || !yield(strings.TrimPrefix(name, ","), value) {
				return
			}
			text = after
		}
	}
}

// deprecation is what the API server warns with: see WarningMessage of k8s.io/apiserver/pkg/endpoints/deprecation, and
// the default for custom resources.
var deprecation = regexp.MustCompile(`^(\S+) (\S+) is deprecated(?: in v[0-9.]+\+)?(?:, unavailable in v([0-9.]+)\+)?(?:;.*)?$`)

// warnings remembers the deprecated APIs that the API server warned of when the agent used them.
type warnings struct {
	resource func(schema.GroupVersionKind) (schema.GroupVersionResource, bool) // as far as the API server was asked

	mu   sync.Mutex // guards what follows
	seen map[schema.GroupVersionKind]deprecated
}

type deprecated struct {
	DeprecatedAPI
	at time.Time
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, code int, _, text string) {
	if code != 299 {
		return
	}
	parts := deprecation.FindStringSubmatch(text)
	if parts == nil {
		return
	}
	gv, err := schema.ParseGroupVersion(parts[1])
	if err != nil {
		return
	}
	gvk := gv.WithKind(parts[2])
	resource, asked := w.resource(gvk)
	w.mu.Lock()
	defer w.mu.Unlock()
	was, seen := w.seen[gvk]
	switch {
	case !seen && len(w.seen) >= maxDeprecated:
		return
	case !asked && seen:
		resource = was.GroupVersionResource
	case !asked:
		resource, _ = meta.UnsafeGuessKindToResource(gvk)
	}
	w.seen[gvk] = deprecated{DeprecatedAPI{resource, parts[3]}, time.Now()}
}

var _ rest.WarningHandlerWithContext = (*warnings)(nil)

// UsedDeprecated are the deprecated APIs that the agent itself used within a day, for services above all.
func (c *Cluster) UsedDeprecated() (out []DeprecatedAPI) {
	c.warnings.mu.Lock()
	defer c.warnings.mu.Unlock()
	for gvk, one := range c.warnings.seen {
		if time.Since(one.at) > warned {
			delete(c.warnings.seen, gvk)
			continue
		}
		out = append(out, one.DeprecatedAPI)
	}
	return out
}
