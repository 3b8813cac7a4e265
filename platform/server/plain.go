package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// plain does for a plain handler what tracing and observer do for calls.
type plain struct {
	observer *observer
	tracing
	route  string
	begins bool               // a trace, unless it belongs to one
	fine   prometheus.Counter // of requests that ended with 200, which are most
	next   http.Handler
}

func newPlain(o *observer, spans tracing, route string, begins bool, next http.Handler) *plain {
	return &plain{observer: o, tracing: spans, route: route, begins: begins, fine: o.metrics.requests.WithLabelValues(route, "200"), next: next}
}

func (p *plain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	ctx, span := p.start(r.Context(), p.route, r.Header, p.begins)
	defer span.End()
	a := &answer{ResponseWriter: w}
	defer func() {
		aborted := p.recover(ctx, a, recover())
		p.ended(ctx, span, r, a.outcome(), time.Since(began))
		if aborted {
			panic(http.ErrAbortHandler)
		}
	}()
	p.next.ServeHTTP(a, r.WithContext(ctx))
}

func (p *plain) ended(ctx context.Context, span trace.Span, r *http.Request, status int, took time.Duration) {
	if span.IsRecording() {
		span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", p.route),
			attribute.String("url.path", r.URL.Path), attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(status))
		}
	}
	if status == http.StatusOK {
		p.fine.Inc()
	} else {
		p.observer.metrics.requests.WithLabelValues(p.route, strconv.Itoa(status)).Inc()
	}
	level := slog.LevelDebug
	if status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	if p.observer.log.Enabled(ctx, level) {
		p.observer.log.Log(ctx, level, "request", "route", p.route, "method", r.Method, "status", status, "took", took)
	}
}

// recover answers for a handler that panicked. recover reports whether the connection has to be cut, because an answer
// had begun and must not look complete.
func (p *plain) recover(ctx context.Context, a *answer, panicked any) (abort bool) {
	if panicked == nil {
		return false
	}
	if panicked == http.ErrAbortHandler { //nolint:errorlint // net/http compares it like this, too.
		return true
	}
	ctx = p.observer.telemetry.Keep(ctx, p.route, time.Now(), "panic")
	p.observer.log.ErrorContext(ctx, "handler panicked", "route", p.route, "panic", panicked, "stack", string(debug.Stack()))
	if a.status != 0 {
		return true
	}
	http.Error(a, internalText(ctx, p.observer.name), http.StatusInternalServerError)
	return false
}

// answer notes an answer's status. http.ResponseController reaches what else a listener's writers can do, but for
// flushing and sending files, which others ask for themselves.
type answer struct {
	http.ResponseWriter
	status int // 0: nothing was said
}

// outcome is the status that the caller got.
func (a *answer) outcome() int { return max(a.status, http.StatusOK) }

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(code int) {
	if a.status == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		a.status = code
	}
	a.ResponseWriter.WriteHeader(code)
}

func (a *answer) Write(p []byte) (int, error) {
	a.status = a.outcome()
	return a.ResponseWriter.Write(p)
}

// ReadFrom lets files go from the disk to the line.
func (a *answer) ReadFrom(r io.Reader) (int64, error) {
	a.status = a.outcome()
	return io.Copy(a.ResponseWriter, r)
}

// Flush implements http.Flusher.
func (a *answer) Flush() {
	a.status = a.outcome()
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}
