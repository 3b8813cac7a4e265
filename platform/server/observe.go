package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/telemetry"
)

// metrics of a listener. Labels are bounded: procedures and routes come from the mounts, codes from
// the protocols.
type metrics struct {
	rpcs     *prometheus.CounterVec
	duration *prometheus.HistogramVec
	streams  *prometheus.GaugeVec
	requests *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		rpcs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_rpc_total", Help: "Calls and streams that ended, by procedure and code (\"ok\" or a Connect code).",
		}, []string{"procedure", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fairlead_rpc_duration_seconds", Help: "How long unary calls took.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60},
		}, []string{"procedure"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fairlead_rpc_streams", Help: "Streams that are open.",
		}, []string{"procedure"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_http_requests_total", Help: "Plain HTTP requests that ended, by route and status.",
		}, []string{"route", "status"}),
	}
	for _, c := range []prometheus.Collector{m.rpcs, m.duration, m.streams, m.requests} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// observer is the interceptor around every call: it turns panics and unforeseen errors into
// answers that give nothing away, counts, and logs.
type observer struct {
	log       *slog.Logger
	telemetry *telemetry.Telemetry
	metrics   *metrics
	name      string
}

// slow is from when on a unary call is worth a look.
const slow = 5 * time.Second

func (o *observer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	var once sync.Once // Wrapped once per procedure, whose name the first call tells.
	var well prometheus.Counter
	var duration prometheus.Observer
	return func(ctx context.Context, req connect.AnyRequest) (res connect.AnyResponse, err error) {
		procedure, start := req.Spec().Procedure, time.Now()
		once.Do(func() {
			well, duration = o.metrics.rpcs.WithLabelValues(procedure, "ok"), o.metrics.duration.WithLabelValues(procedure)
		})
		defer func() {
			panicked := recover()
			took := time.Since(start)
			telemetry.Observe(ctx, duration, took)
			if took > slow && err == nil {
				ctx = o.telemetry.Keep(ctx, strings.TrimPrefix(procedure, "/"), start, "")
			}
			if err == nil && panicked == nil && !o.log.Enabled(ctx, slog.LevelDebug) {
				well.Inc()
				return
			}
			err = o.settle(ctx, procedure, took, err, panicked)
		}()
		return next(ctx, req)
	}
}

func (o *observer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (o *observer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) (err error) {
		end := o.begin(ctx, conn)
		defer func() { err = end(err, recover()) }()
		return next(ctx, conn)
	}
}

// begin notes that a stream is open. begin is apart from the handler, whose stack lives as long as the stream.
//
//go:noinline
func (o *observer) begin(ctx context.Context, conn connect.StreamingHandlerConn) (end func(err error, panicked any) error) {
	procedure, start := conn.Spec().Procedure, time.Now()
	open := o.metrics.streams.WithLabelValues(procedure)
	open.Inc()
	return func(err error, panicked any) error {
		defer open.Dec()
		return o.settle(ctx, procedure, time.Since(start), err, panicked)
	}
}

// settle makes of a call's end what the caller is told, and says so in log and metrics.
func (o *observer) settle(ctx context.Context, procedure string, took time.Duration, err error, panicked any) error {
	if panicked == http.ErrAbortHandler { //nolint:errorlint // net/http compares it like this, too.
		panic(panicked)
	}
	if panicked != nil || unforeseen(err) {
		ctx = o.telemetry.Keep(ctx, strings.TrimPrefix(procedure, "/"), time.Now().Add(-took), "internal error")
	}
	if panicked != nil {
		o.log.ErrorContext(ctx, "handler panicked", "procedure", procedure, "panic", panicked, "stack", string(debug.Stack()))
		err = fmt.Errorf("panic: %v", panicked)
	}
	told := o.tell(ctx, err)
	code := "ok"
	if told != nil {
		code = connect.CodeOf(told).String()
	}
	o.metrics.rpcs.WithLabelValues(procedure, code).Inc()
	if told != nil && connect.CodeOf(told) == connect.CodeInternal {
		o.log.ErrorContext(ctx, "call failed", "procedure", procedure, "code", code, "took", took, "err", err)
	} else {
		o.log.DebugContext(ctx, "call", "procedure", procedure, "code", code, "took", took, "err", err)
	}
	return told
}

// tell gives errors that no handler chose a code for one, and keeps what is internal inside.
func (o *observer) tell(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	canceled := isCanceled(err)
	chosen, isChosen := chosenCode(err)
	switch {
	case canceled && isDraining(ctx):
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("%s is stopping: try again", o.name))
	case isChosen:
		return chosen
	case canceled:
		return connect.NewError(connect.CodeCanceled, context.Canceled)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded)
	default:
		return connect.NewError(connect.CodeInternal, errors.New(internalText(ctx, o.name)))
	}
}

func isCanceled(err error) bool {
	return errors.Is(err, context.Canceled) || connect.CodeOf(err) == connect.CodeCanceled
}

// chosenCode returns the error for which a handler chose a code.
func chosenCode(err error) (*connect.Error, bool) {
	chosen, ok := errors.AsType[*connect.Error](err)
	return chosen, ok && chosen.Code() != connect.CodeInternal && chosen.Code() != connect.CodeUnknown
}

// unforeseen says whether an error is a fault of ours, which callers are not told.
func unforeseen(err error) bool {
	_, chosen := chosenCode(err)
	return err != nil && !chosen && !isCanceled(err) && !errors.Is(err, context.DeadlineExceeded)
}

// internalText tells a person where to look for what the answer leaves out.
func internalText(ctx context.Context, name string) string {
	return fmt.Sprintf("internal error in %s: its log says more under trace_id %s", name, trace.SpanContextFromContext(ctx).TraceID())
}
