package telemetry_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/telemetry"
)

const (
	recorded = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	dropped  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func TestChildOfWhatIsNotRecordedCostsNothing(t *testing.T) { // alone: allocations are counted
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	for _, ctx := range []context.Context{context.Background(), telemetry.Extract(context.Background(), dropped)} {
		if n := testing.AllocsPerRun(10, func() {
			_, span := telemetry.Child(ctx, tracer, "x")
			span.End()
		}); n > 0 {
			t.Errorf("%v allocations", n)
		}
	}
	_, span := telemetry.Of(t.Context(), recorded, tracer, "x")
	span.End()
	if got := spans.Ended(); len(got) != 1 || got[0].Parent().SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("got %v", got)
	}
}

func TestTraceIsThinnedForMany(t *testing.T) {
	t.Parallel()
	if telemetry.Thin(recorded, "a", 100, 100) != recorded || telemetry.Thin(dropped, "a", 1, 10000) != dropped ||
		telemetry.Thin("", "a", 1, 10000) != "" {
		t.Error("it is changed where it need not be")
	}
	kept := 0
	for i := range 10000 {
		key := fmt.Sprintf("edge-%d", i)
		got := telemetry.Thin(recorded, key, 100, 10000)
		if got != telemetry.Thin(recorded, key, 100, 10000) {
			t.Fatal("it differs for the same key")
		}
		switch got {
		case recorded:
			kept++
		case dropped:
		default:
			t.Fatalf("got %q", got)
		}
	}
	if kept < 50 || kept > 200 {
		t.Errorf("%d of 10,000 are recorded, want about 100", kept)
	}
	for text, want := range map[string]bool{
		recorded: true, dropped: false, "": false, recorded[:54]: false, recorded[:53] + "03": true,
		recorded[:53] + "zz": false,
	} {
		if telemetry.Sampled(text) != want {
			t.Errorf("%q is sampled: %v", text, !want)
		}
	}
}

func TestWhatWentWrongIsKept(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	tel := telemetry.Discard()
	if got := tel.Keep(t.Context(), "x", time.Now(), "no"); !trace.SpanContextFromContext(got).IsValid() {
		t.Error("without a collector there is no trace id")
	}
	tel.Kept = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans),
		sdktrace.WithSampler(sdktrace.AlwaysSample()))
	began := time.Now().Add(-time.Minute)
	ctx := tel.Keep(telemetry.Extract(t.Context(), dropped), "agent.apply", began, "not applied")
	got := spans.Ended()
	if len(got) != 1 || got[0].Parent().SpanID().String() != "b7ad6b7169203331" || !got[0].StartTime().Equal(began) ||
		got[0].Status().Code != codes.Error {
		t.Fatalf("got %v", got)
	}
	if trace.SpanContextFromContext(ctx).SpanID() != got[0].SpanContext().SpanID() {
		t.Error("logs name another span")
	}
	ctx, span := tel.Kept.Tracer("test").Start(t.Context(), "y")
	defer span.End()
	if tel.Keep(ctx, "y", began, "no"); len(spans.Ended()) != 1 {
		t.Error("what is recorded is recorded again")
	}
}

func TestDurationHasItsTraceAsExample(t *testing.T) {
	t.Parallel()
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Buckets: []float64{1, 10}})
	telemetry.Observe(telemetry.Extract(t.Context(), dropped), h, 100*time.Millisecond)
	telemetry.Observe(telemetry.Extract(t.Context(), recorded), h, 2*time.Second)
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		t.Fatal(err)
	}
	buckets := m.GetHistogram().GetBucket()
	if m.GetHistogram().GetSampleCount() != 2 || buckets[0].GetExemplar() != nil ||
		buckets[1].GetExemplar().GetLabel()[0].GetValue() != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("got %v", m.GetHistogram())
	}
}
