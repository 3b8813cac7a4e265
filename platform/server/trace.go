package server

import (
	"context"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// tracing is the interceptor that makes a span of every call, as a child of the caller's. It describes
// only spans that are recorded: most are not, and exist for the sake of their ids.
type tracing struct{ tracer trace.Tracer }

func (t tracing) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, span := t.start(ctx, req.Spec().Procedure, req.Header())
		defer span.End()
		res, err := next(ctx, req)
		mark(span, err)
		return res, err
	}
}

func (t tracing) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (t tracing) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ctx, span := t.start(ctx, conn.Spec().Procedure, conn.RequestHeader())
		defer span.End()
		err := next(ctx, conn)
		mark(span, err)
		return err
	}
}

func (t tracing) start(ctx context.Context, procedure string, header http.Header) (context.Context, trace.Span) {
	if len(header["Traceparent"]) > 0 {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
	}
	name := strings.TrimPrefix(procedure, "/")
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	if span.IsRecording() {
		service, method, _ := strings.Cut(name, "/")
		span.SetAttributes(attribute.String("rpc.system", "connect_rpc"), attribute.String("rpc.service", service), attribute.String("rpc.method", method))
	}
	return ctx, span
}

// mark says how a call ended.
func mark(span trace.Span, err error) {
	if err == nil || !span.IsRecording() {
		return
	}
	code := connect.CodeOf(err)
	span.SetAttributes(attribute.String("rpc.connect_rpc.error_code", code.String()))
	switch code { // What is the caller's fault is no fault of the span.
	case connect.CodeUnknown, connect.CodeInternal, connect.CodeDataLoss, connect.CodeUnimplemented, connect.CodeUnavailable, connect.CodeDeadlineExceeded:
		span.SetStatus(codes.Error, err.Error())
	}
}
