package telemetry

import (
	"context"
	"hash/fnv"
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const traceparent = "traceparent"

// Inject returns the W3C trace context of ctx, to be kept with a revision or a report; "" if there
// is none.
func Inject(ctx context.Context) string {
	var p parent
	propagation.TraceContext{}.Inject(ctx, &p)
	return string(p)
}

// Extract returns ctx as a child of the given W3C trace context. A text that is no trace context is ignored.
func Extract(ctx context.Context, text string) context.Context {
	if text == "" {
		return ctx
	}
	p := parent(text)
	return propagation.TraceContext{}.Extract(ctx, &p)
}

// parent is a carrier with room for a traceparent and nothing else.
type parent string

func (p *parent) Get(key string) string {
	if key != traceparent {
		return ""
	}
	return string(*p)
}

func (p *parent) Set(key, value string) {
	if key == traceparent {
		*p = parent(value)
	}
}

func (p *parent) Keys() []string { return []string{traceparent} }

// Child begins a span within the trace of ctx, if that is recorded. Else it makes none, costs nothing and returns ctx:
// use it where what is done must not begin a trace.
func Child(ctx context.Context, tracer trace.Tracer, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, trace.SpanFromContext(context.Background()) // a span that does nothing
	}
	return tracer.Start(ctx, name, opts...) //nolint:spancheck // the caller ends it
}

// Of is Child of a W3C trace context.
func Of(ctx context.Context, parent string, tracer trace.Tracer, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	return Child(Extract(ctx, parent), tracer, name, opts...)
}

// Sampled says whether the trace of a W3C trace context is recorded.
func Sampled(parent string) bool {
	const flags = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-")
	if len(parent) != flags+2 {
		return false
	}
	last := parent[flags+1] // of the hexadecimal digits; the flag is its lowest bit
	return strings.IndexByte("13579bdf", last) >= 0
}

// TraceID is that of a W3C trace context: version-traceid-spanid-flags. "": it has none.
func TraceID(parent string) string {
	if len(parent) < 35 {
		return ""
	}
	return parent[3:35]
}

// Thin returns the W3C trace context for one of many that a trace goes on to: for about most of them as it is, and for
// the others as one that is not recorded. The result is the same for the same trace and key.
func Thin(parent, key string, most, of int) string {
	if of <= most || !Sampled(parent) {
		return parent
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(TraceID(parent) + key))
	if float64(sum.Sum32()) <= float64(most)/float64(of)*math.MaxUint32 {
		return parent
	}
	return parent[:len(parent)-2] + "00"
}

// Keep records, after the fact, a span of something that is worth a look whether or not its trace is recorded, and
// returns the context of that. There is a trace from then on, even if nothing is exported: for logs and answers to
// name. A span that is being recorded already is left alone. why is what went wrong, if anything.
func (t *Telemetry) Keep(ctx context.Context, name string, began time.Time, why string, attrs ...attribute.KeyValue) context.Context {
	if trace.SpanFromContext(ctx).IsRecording() {
		return ctx
	}
	if t.Kept == nil {
		if !trace.SpanContextFromContext(ctx).IsValid() {
			ctx, _ = t.Tracer.Tracer(scope).Start(ctx, name) //nolint:spancheck // an id and nothing else
		}
		return ctx
	}
	ctx, span := t.Kept.Tracer(scope).Start(ctx, name, trace.WithTimestamp(began),
		trace.WithAttributes(attribute.Bool("fairlead.kept", true)), trace.WithAttributes(attrs...))
	if why != "" {
		span.SetStatus(codes.Error, why)
	}
	span.End()
	return ctx
}

const scope = "fairlead.dev/platform/telemetry"

// Observe takes a duration in, with the trace that is an example of it if that is recorded.
func Observe(ctx context.Context, into prometheus.Observer, took time.Duration) {
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		if into, ok := into.(prometheus.ExemplarObserver); ok {
			into.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": span.TraceID().String()})
			return
		}
	}
	into.Observe(took.Seconds())
}
