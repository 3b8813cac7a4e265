package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/telemetry"
)

func TestNothingIsExportedWithoutEndpoint(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
	tel, stop, err := telemetry.Setup(t.Context(), telemetry.Config{Service: "gitcache", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	_, span := tel.Tracer.Tracer("test").Start(t.Context(), "fetch")
	if !span.SpanContext().IsValid() {
		t.Error("no trace id")
	}
	if span.IsRecording() {
		t.Error("a span is recorded that nobody exports")
	}
	span.End()
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	families, err := tel.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range families {
		found = found || f.GetName() == "fairlead_build_info"
	}
	if !found {
		t.Error("no fairlead_build_info")
	}
}

func TestSpansReachTheConfiguredCollector(t *testing.T) {
	got := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.URL.Path + " " + string(body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	tel, stop, err := telemetry.Setup(t.Context(), telemetry.Config{Service: "gitcache", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	_, span := tel.Tracer.Tracer("test").Start(t.Context(), "fetch refs")
	span.End()
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	export := <-got
	for _, want := range []string{"/v1/traces ", "fetch refs", "fairlead-gitcache"} {
		if !strings.Contains(export, want) {
			t.Errorf("export has no %q", want)
		}
	}
}

func TestCollectorThatIsDownIsMentionedOnce(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer collector.Close()
	var out bytes.Buffer
	tel, stop, err := telemetry.Setup(t.Context(), telemetry.Config{
		Service: "gitcache", OTLPEndpoint: collector.URL,
		Log: telemetry.NewLogger(&out, slog.LevelInfo, telemetry.FormatText, "gitcache"),
	})
	if err != nil {
		t.Fatal(err)
	}
	flush := tel.Tracer.(interface{ ForceFlush(context.Context) error })
	for range 3 {
		_, span := tel.Tracer.Tracer("test").Start(t.Context(), "fetch")
		span.End()
		if err := flush.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "traces are not exported"); n != 1 {
		t.Errorf("mentioned %d times:\n%s", n, out.String())
	}
}

func TestTraceFollowsThroughText(t *testing.T) {
	t.Parallel()
	ctx, span := telemetry.Discard().Tracer.Tracer("test").Start(t.Context(), "poll")
	defer span.End()
	text := telemetry.Inject(ctx)
	got := trace.SpanContextFromContext(telemetry.Extract(context.Background(), text))
	if got.TraceID() != span.SpanContext().TraceID() {
		t.Errorf("trace id got lost in %q", text)
	}
	if text := telemetry.Inject(context.Background()); text != "" {
		t.Errorf("trace context from nowhere: %q", text)
	}
	for _, bad := range []string{"", "00", "00-zz", strings.Repeat("0", 10000)} {
		if trace.SpanContextFromContext(telemetry.Extract(context.Background(), bad)).IsValid() {
			t.Errorf("took %q for a trace context", bad)
		}
	}
}

func TestLogLinesCarryServiceAndTrace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := telemetry.NewLogger(&out, slog.LevelInfo, telemetry.FormatJSON, "gitcache")
	ctx, span := telemetry.Discard().Tracer.Tracer("test").Start(t.Context(), "poll")
	log.With("source", "shop").WithGroup("g").InfoContext(ctx, "fetched", "refs", 2)
	log.Debug("not this one")
	var line struct {
		App, Source string
		G           struct {
			Refs    int
			TraceID string `json:"trace_id"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	if line.App != "gitcache" || line.Source != "shop" || line.G.Refs != 2 ||
		line.G.TraceID != span.SpanContext().TraceID().String() {
		t.Errorf("got %s", out.String())
	}
}

func TestLogFlags(t *testing.T) {
	t.Parallel()
	var c telemetry.LogConfig
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	c.RegisterFlags(fs)
	if err := fs.Parse([]string{"--log-level=debug", "--log-format=json"}); err != nil {
		t.Fatal(err)
	}
	if c.Level != slog.LevelDebug || c.Format != telemetry.FormatJSON {
		t.Errorf("got %+v", c)
	}
	if err := fs.Parse([]string{"--log-format=xml"}); err == nil {
		t.Error("xml is taken for a format")
	}
}
