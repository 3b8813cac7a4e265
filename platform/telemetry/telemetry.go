// Package telemetry sets up what every part of Fairlead is observed by: traces (OpenTelemetry),
// metrics (Prometheus) and logs (slog, with the trace that a line belongs to).
//
// Nothing leaves the process unless an OTLP endpoint is configured. The code that begins a trace makes its id in any
// case: it ties log lines, requests and revisions together. Which spans there are is in docs/operate/tracing.md.
package telemetry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Config says who is observed, and where traces go.
type Config struct {
	Service string // Name of the service, such as "gitcache".
	Version string
	// OTLPEndpoint is the URL of an OTLP/HTTP collector. Empty: the standard variables
	// OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_TRACES_ENDPOINT decide; without them
	// nothing is exported. The other OTEL_EXPORTER_OTLP_* variables are honoured as well.
	OTLPEndpoint string
	Log          *slog.Logger // Where failing exports are reported; nil: nowhere.
}

// Telemetry is what a part is given to observe itself with.
type Telemetry struct {
	Tracer   trace.TracerProvider
	Registry *prometheus.Registry
	// Kept records every span that is begun with it, whatever was decided about its trace: see Keep. nil: nothing is
	// exported.
	Kept trace.TracerProvider
	// Upload hands spans of others to the collector; nil: there is none.
	Upload Upload
}

// Upload takes spans in OTLP's own form.
type Upload func(ctx context.Context, spans []*tracepb.ResourceSpans) error

// Setup returns a Telemetry with the process' own metrics in its registry, and the function that
// flushes and ends it: call it last, with a bounded context.
func Setup(ctx context.Context, cfg Config) (*Telemetry, func(context.Context) error, error) {
	t := &Telemetry{Registry: newRegistry(cfg)}
	if !exporting(cfg) {
		provider := sdktrace.NewTracerProvider(quietSampler())
		t.Tracer = provider
		return t, provider.Shutdown, nil
	}
	var opts []otlptracehttp.Option
	if cfg.OTLPEndpoint != "" {
		opts = append(opts, otlptracehttp.WithEndpointURL(cfg.OTLPEndpoint))
	}
	collector := otlptracehttp.NewClient(opts...)
	flush, err := t.exportTo(ctx, cfg, collector)
	if err != nil {
		return nil, nil, fmt.Errorf("set up telemetry: %w", err)
	}
	t.Upload = collector.UploadTraces
	return t, flush, nil
}

// Discard returns a Telemetry that exports nothing, for tests.
func Discard() *Telemetry {
	return &Telemetry{Tracer: sdktrace.NewTracerProvider(quietSampler()), Registry: prometheus.NewRegistry()}
}

// quietSampler records nothing by itself, still makes ids, and hands on the caller's decision.
func quietSampler() sdktrace.TracerProviderOption {
	return sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample()))
}

// ExportThrough makes spans go to upload instead of to a collector, and returns the function that flushes and ends it.
func (t *Telemetry) ExportThrough(ctx context.Context, cfg Config, upload Upload) (func(context.Context) error, error) {
	return t.exportTo(ctx, cfg, uploader{upload})
}

// uploader is an otlptrace.Client without a connection of its own.
type uploader struct{ upload Upload }

func (uploader) Start(context.Context) error { return nil }
func (uploader) Stop(context.Context) error  { return nil }

func (u uploader) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	return u.upload(ctx, spans)
}

// exportTo makes the providers. The standard variables' words on sampling count.
func (t *Telemetry) exportTo(ctx context.Context, cfg Config, to otlptrace.Client) (func(context.Context) error, error) {
	exporter, err := otlptrace.New(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("make trace exporter: %w", err)
	}
	res, err := describe(ctx, cfg)
	if err != nil {
		return nil, err
	}
	batches := sdktrace.NewBatchSpanProcessor(&reportingExporter{SpanExporter: exporter, log: cfg.Log})
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithSpanProcessor(batches))
	t.Tracer = provider
	t.Kept = sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithSpanProcessor(batches), sdktrace.WithSampler(sdktrace.AlwaysSample()))
	return provider.Shutdown, nil
}

func describe(ctx context.Context, cfg Config) (*resource.Resource, error) {
	res, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(
		attribute.String("service.name", "fairlead-"+cfg.Service), attribute.String("service.version", cfg.Version),
		attribute.String("service.instance.id", rand.Text()))) // of this process
	if err != nil && !errors.Is(err, resource.ErrPartialResource) && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, fmt.Errorf("describe resource: %w", err)
	}
	return res, nil
}

func exporting(cfg Config) bool {
	return cfg.OTLPEndpoint != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

func newRegistry(cfg Config) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "fairlead_build_info",
		Help: "Always 1; the labels tell which build of which service runs.",
	}, []string{"service", "version"})
	build.WithLabelValues(cfg.Service, cfg.Version).Set(1)
	// Not from the collectors package: that one links database/sql into every binary, the agent too.
	registry.MustRegister(build, prometheus.NewGoCollector(), prometheus.NewProcessCollector(prometheus.ProcessCollectorOpts{})) //nolint:staticcheck // see above
	return registry
}

// reportEvery bounds how often a collector that is down is mentioned.
const reportEvery = time.Minute

// reportingExporter logs failing exports through the service's logger, and rarely; the SDK by itself
// prints each to stderr through a handler that is global to the process.
type reportingExporter struct {
	sdktrace.SpanExporter
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
}

func (e *reportingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil && e.due() {
		e.log.WarnContext(ctx, "traces are not exported", "err", err, "spans", len(spans))
	}
	return nil
}

func (e *reportingExporter) due() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.log == nil || time.Since(e.last) < reportEvery {
		return false
	}
	e.last = time.Now()
	return true
}
