package traces

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// maxBody is far above what a batch of spans has.
const maxBody = 16 << 20

// Received is a span as it was exported.
type Received struct {
	Span

	Trace, ID, ParentID string
	Instance            string            // of the service
	Attributes          map[string]string // those that are text
}

// Receiver is an OTLP/HTTP collector that keeps all spans. Make it with NewReceiver, and close it.
type Receiver struct {
	*httptest.Server

	mu    sync.Mutex // guards spans
	spans []Received
}

// NewReceiver starts a receiver on the loopback.
func NewReceiver() *Receiver {
	r := &Receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(r.take))
	return r
}

func (r *Receiver) take(w http.ResponseWriter, req *http.Request) {
	spans, err := decode(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = append(r.spans, spans...)
}

func decode(req *http.Request) ([]Received, error) {
	body := io.LimitReader(req.Body, maxBody)
	if req.Header.Get("Content-Encoding") == "gzip" {
		zipped, err := gzip.NewReader(body)
		if err != nil {
			return nil, fmt.Errorf("read spans: %w", err)
		}
		body = io.LimitReader(zipped, maxBody)
	}
	bytes, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("read spans: %w", err)
	}
	var m coltracepb.ExportTraceServiceRequest
	if err := proto.Unmarshal(bytes, &m); err != nil {
		return nil, fmt.Errorf("decode spans: %w", err)
	}
	return received(&m), nil
}

func received(m *coltracepb.ExportTraceServiceRequest) (out []Received) {
	for _, rs := range m.GetResourceSpans() {
		resource := map[string]string{}
		for _, kv := range rs.GetResource().GetAttributes() {
			resource[kv.GetKey()] = kv.GetValue().GetStringValue()
		}
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				one := Received{
					Span:  Span{Name: s.GetName(), Service: resource["service.name"]},
					Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), ParentID: hex.EncodeToString(s.GetParentSpanId()),
					Instance: resource["service.instance.id"], Attributes: map[string]string{"fairlead.cluster": resource["fairlead.cluster"]},
				}
				for _, kv := range s.GetAttributes() {
					one.Attributes[kv.GetKey()] = kv.GetValue().GetStringValue()
				}
				out = append(out, one)
			}
		}
	}
	return out
}

// Spans are those that came until now.
func (r *Receiver) Spans() []Received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// Trace returns the spans of a trace, with the names of their parents.
func Trace(all []Received, id string) []Received {
	names := map[string]string{}
	var out []Received
	for _, s := range all {
		if s.Trace == id {
			names[s.ID] = s.Name
			out = append(out, s)
		}
	}
	for i, s := range out {
		out[i].Parent = names[s.ParentID]
		if s.ParentID != "" && out[i].Parent == "" {
			out[i].Parent = "a span that did not come"
		}
	}
	return out
}

// Check says which spans a trace lacks.
func Check(trace []Received, want []Span) error {
	var missing []string
	for _, w := range want {
		if !slices.ContainsFunc(trace, func(r Received) bool { return r.Span == w }) {
			missing = append(missing, fmt.Sprintf("%s of %s below %q", w.Name, w.Service, w.Parent))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var has []string
	for _, r := range trace {
		has = append(has, fmt.Sprintf("%s of %s below %q", r.Name, r.Service, r.Parent))
	}
	slices.Sort(has)
	return fmt.Errorf("the trace lacks %s; it has %s", strings.Join(missing, ", "), strings.Join(slices.Compact(has), ", "))
}
