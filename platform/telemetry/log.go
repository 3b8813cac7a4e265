package telemetry

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// Format is how log lines are written.
type Format string

// The formats.
const (
	FormatText Format = "text"
	FormatJSON Format = "json"
)

// UnmarshalText accepts the names of the formats.
func (f *Format) UnmarshalText(text []byte) error {
	switch got := Format(text); got {
	case FormatText, FormatJSON:
		*f = got
		return nil
	default:
		return fmt.Errorf("log format %q: must be %s or %s", text, FormatText, FormatJSON)
	}
}

// MarshalText returns the name of the format.
func (f Format) MarshalText() ([]byte, error) { return []byte(f), nil }

// LogConfig is what a deployment says about logs.
type LogConfig struct {
	Level  slog.Level
	Format Format // Empty: text.
}

// RegisterFlags adds --log-level and --log-format.
func (c *LogConfig) RegisterFlags(fs *flag.FlagSet) {
	fs.TextVar(&c.Level, "log-level", c.Level, "least level that is logged: debug, info, warn or error")
	if c.Format == "" {
		c.Format = FormatText
	}
	fs.TextVar(&c.Format, "log-format", c.Format, "text or json")
}

// NewLogger returns a logger that names the service, and the trace and span that a line was
// logged within (keys trace_id and span_id). Recent returns the end of what it wrote.
func NewLogger(w io.Writer, level slog.Level, format Format, service string) *slog.Logger {
	opts, kept := &slog.HandlerOptions{Level: level}, &recent{}
	w = teed{w, kept}
	var h slog.Handler = slog.NewTextHandler(w, opts)
	if format == FormatJSON {
		h = slog.NewJSONHandler(w, opts)
	}
	return slog.New(traceHandler{h, kept}).With("app", service)
}

type traceHandler struct {
	slog.Handler
	recent *recent
}

func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs), h.recent}
}

func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name), h.recent}
}
