// Package spans takes spans of agents that reach nothing but the hub, and hands them on to the hub's collector.
//
// Nothing of what an agent says about itself is believed: the resource is made anew, with the cluster of its token.
// Sizes and rates are bounded, and spans above a bound are refused: spans are for looking at, and never worth a queue.
package spans

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/telemetry"
)

const (
	maxBytes   = 1 << 20 // of a request
	maxSpans   = 1000    // of a request; agents send 512
	maxAtOnce  = 16      // requests; each holds a decoded request and a call to the collector
	perMinute  = 6000    // spans of a cluster
	uploadTime = 10 * time.Second
	// clusterKey says whose span it is; agents' own are removed.
	clusterKey = "fairlead.cluster"
)

// Relay is an http.Handler for POST /v1/traces of OTLP/HTTP, for agents.
type Relay struct {
	upload telemetry.Upload
	slots  chan struct{}
	now    func() time.Time

	mu    sync.Mutex // guards what follows
	since time.Time  // of the minute
	taken map[string]int
}

// New returns a relay. Without upload it refuses everything.
func New(upload telemetry.Upload, now func() time.Time) *Relay {
	return &Relay{upload: upload, slots: make(chan struct{}, maxAtOnce), now: now, taken: map[string]int{}}
}

// ServeHTTP implements http.Handler.
func (rl *Relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cluster, ok := identity.Cluster(r.Context())
	switch {
	case !ok:
		http.Error(w, "only agents hand spans in", http.StatusForbidden)
		return
	case rl.upload == nil:
		http.Error(w, "this distributor exports no traces: set its OTEL_EXPORTER_OTLP_ENDPOINT", http.StatusNotFound)
		return
	}
	select {
	case rl.slots <- struct{}{}:
		defer func() { <-rl.slots }()
	default:
		busy(w)
		return
	}
	m, err := readExport(w, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	spans := flatten(m)
	if len(spans) > maxSpans {
		http.Error(w, "too many spans in one request: 1,000 are taken", http.StatusRequestEntityTooLarge)
		return
	}
	if !rl.within(cluster, len(spans)) {
		busy(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), uploadTime)
	defer cancel()
	if err := rl.upload(ctx, stamped(cluster, version(m), spans)); err != nil {
		http.Error(w, "the hub's collector does not take spans now", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(http.StatusOK) // an empty answer is all spans taken
}

const contentType = "application/x-protobuf"

func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "60")
	http.Error(w, "too many spans: these are lost", http.StatusTooManyRequests)
}

func readExport(w http.ResponseWriter, r *http.Request) (*coltracepb.ExportTraceServiceRequest, error) {
	if r.Header.Get("Content-Type") != contentType || r.Header.Get("Content-Encoding") != "" {
		return nil, errors.New("want " + contentType + ", not compressed")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBytes))
	if err != nil {
		return nil, errors.New("the body can't be read, or is longer than 1 MiB")
	}
	m := &coltracepb.ExportTraceServiceRequest{}
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, errors.New("the body is no ExportTraceServiceRequest")
	}
	return m, nil
}

// within counts a cluster's spans of this minute.
func (rl *Relay) within(cluster string, spans int) bool {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	if now := rl.now(); now.Sub(rl.since) >= time.Minute {
		rl.since = now
		clear(rl.taken)
	}
	if rl.taken[cluster]+spans > perMinute {
		return false
	}
	rl.taken[cluster] += spans
	return true
}

// flatten returns all spans, without what they say of their cluster.
func flatten(m *coltracepb.ExportTraceServiceRequest) (out []*tracepb.Span) {
	for _, rs := range m.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			out = append(out, ss.GetSpans()...)
		}
	}
	for _, s := range out {
		s.Attributes = slices.DeleteFunc(s.GetAttributes(), func(kv *commonpb.KeyValue) bool { return kv.GetKey() == clusterKey })
	}
	return out
}

// version is what the agent says of its build. Nothing else is taken from the message, for it tells of nobody else.
func version(m *coltracepb.ExportTraceServiceRequest) string {
	const longest = 64
	for _, rs := range m.GetResourceSpans() {
		for _, kv := range rs.GetResource().GetAttributes() {
			if v := kv.GetValue().GetStringValue(); kv.GetKey() == "service.version" && len(v) <= longest {
				return v
			}
		}
	}
	return ""
}

func stamped(cluster, version string, spans []*tracepb.Span) []*tracepb.ResourceSpans {
	text := func(key, value string) *commonpb.KeyValue {
		return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
	}
	return []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			text("service.name", "fairlead-agent"), text("service.version", version), text("service.instance.id", cluster), text(clusterKey, cluster),
		}},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "fairlead.dev/services/agent"}, Spans: spans}},
	}}
}
