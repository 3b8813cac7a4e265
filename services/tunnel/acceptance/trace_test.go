package acceptance

import (
	"net/http"
	"slices"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"fairlead.dev/platform/telemetry"
)

func TestRequestIsOneTraceAcrossReplicasAndAgent(t *testing.T) {
	t.Parallel()
	first := newHub(t, "edge-1")
	recorder := tracetest.NewSpanRecorder()
	first.observed = &telemetry.Telemetry{Tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))}
	here, there := first.another(), first.another()
	here.throughProxy("edge-1", here.oldProxy(), answers([]byte("pods")))
	here.await("the cluster answers through the other replica", func() bool {
		resp, _ := there.do(there.request("GET", "/clusters/edge-1/api", nil))
		return resp.StatusCode == http.StatusOK
	})
	here.await("there is a trace with all spans", func() bool {
		return slices.Contains(paths(recorder), "/clusters/>/relay/>agent.request")
	})
	resp, _ := here.do(here.request("GET", "/clusters/edge-1/api", nil))
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	here.await("without a relay there is one span less", func() bool {
		return slices.Contains(paths(recorder), "/clusters/>agent.request")
	})
}

// paths are the spans that ended, each with those above it.
func paths(recorder *tracetest.SpanRecorder) (out []string) {
	all := map[string]sdktrace.ReadOnlySpan{}
	for _, s := range recorder.Ended() {
		all[s.SpanContext().SpanID().String()] = s
	}
	for _, s := range all {
		path := s.Name()
		for above := all[s.Parent().SpanID().String()]; above != nil; above = all[above.Parent().SpanID().String()] {
			path = above.Name() + ">" + path
		}
		out = append(out, path)
	}
	return out
}
