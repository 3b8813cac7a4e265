package acceptance

import (
	"slices"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/telemetry"
)

func TestDeliveryIsInTheTraceOfItsCommit(t *testing.T) {
	t.Parallel()
	const poll = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w := newWorld(t)
	recorder := tracetest.NewSpanRecorder()
	w.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	w.ship()
	a := w.start().agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	events := a.watch()
	a.awaitEvent(events, func(*deliveryv1.WatchResponse) bool { return true }) // the cluster is watched

	w.git.commit(t, commit("2"), "apps/hello", "two")
	found := shop("HEAD", commit("2"))
	found.GetSource().GetStatus().GetHeads()[0].GetRevision().Traceparent = poll
	w.console.Put(found)
	var nudge string
	a.awaitEvent(events, func(m *deliveryv1.WatchResponse) bool {
		nudge = m.GetNudge().GetTraceparent()
		return nudge != ""
	})
	if telemetry.TraceID(nudge) != telemetry.TraceID(poll) {
		t.Errorf("nudged in %q", nudge)
	}
	a.awaitCommit("hello", commit("2"))
	if got := a.got["hello"].GetRevision().GetTraceparent(); got != poll {
		t.Errorf("delivered in %q", got)
	}
	want := []string{
		"b7ad6b7169203331>distributor.digest", "b7ad6b7169203331>distributor.resolve",
		"distributor.digest>distributor.nudge",
	}
	await.True(w.t, "the trace has all spans", func() bool { return slices.Equal(below(recorder), want) })
}

// below are the spans that ended, each with its parent. Nothing but the commit made any: not the Syncs of this test,
// which belong to no trace.
func below(recorder *tracetest.SpanRecorder) (out []string) {
	names := map[string]string{}
	for _, s := range recorder.Ended() {
		names[s.SpanContext().SpanID().String()] = s.Name()
	}
	for _, s := range recorder.Ended() {
		parent := s.Parent().SpanID().String()
		if name := names[parent]; name != "" {
			parent = name
		}
		out = append(out, parent+">"+s.Name())
	}
	slices.Sort(out)
	return out
}
