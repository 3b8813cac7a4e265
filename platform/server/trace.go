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

	"fairlead.dev/platform/identity"
)

// tracing is the interceptor that makes a span of every call that belongs to a trace, as a child of the caller's. Unary
// calls that people may make begin one, and those by which somebody gets in; what machines ask of each other does not,
// for nearly all of it finds nothing new.
type tracing struct {
	tracer trace.Tracer
	policy identity.Policy
}

func (t tracing) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		procedure := req.Spec().Procedure
		ctx, span := t.call(ctx, procedure, req.Header(), t.begins(req.Spec()))
		defer span.End()
		res, err := next(ctx, req)
		mark(span, err)
		return res, err
	}
}

func (t tracing) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler hands the caller's trace on. A span would be as long as the stream, which is no time that
// anything took.
func (t tracing) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(callers(ctx, conn.RequestHeader()), conn)
	}
}

// people says whether a role may be a person's.
func people(role identity.Role) bool { return role&(identity.RoleUser|identity.RoleAdmin) != 0 }

// begins says whether calls of a procedure begin a trace. A procedure that is open and changes something gives out
// tokens.
func (t tracing) begins(spec connect.Spec) bool {
	role := t.policy[spec.Procedure]
	return people(role) || role == identity.RoleOpen && spec.IdempotencyLevel != connect.IdempotencyNoSideEffects
}

// callers returns ctx within the trace of the caller, if there is one.
func callers(ctx context.Context, header http.Header) context.Context {
	if len(header["Traceparent"]) == 0 {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
}

// start makes a span of what is served, if it belongs to a trace that is recorded or begins one. Spans that are not
// recorded exist for the sake of their ids.
func (t tracing) start(ctx context.Context, name string, header http.Header, begins bool) (context.Context, trace.Span) {
	ctx = callers(ctx, header)
	if parent := trace.SpanContextFromContext(ctx); !parent.IsSampled() && (parent.IsValid() || !begins) {
		return ctx, trace.SpanFromContext(context.Background()) // a span that does nothing
	}
	return t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer)) //nolint:spancheck // the caller ends it
}

func (t tracing) call(ctx context.Context, procedure string, header http.Header, begins bool) (context.Context, trace.Span) {
	name := strings.TrimPrefix(procedure, "/")
	ctx, span := t.start(ctx, name, header, begins)
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
	switch code { // The caller's fault is no fault of the span.
	case connect.CodeUnknown, connect.CodeInternal, connect.CodeDataLoss, connect.CodeUnimplemented, connect.CodeUnavailable, connect.CodeDeadlineExceeded:
		span.SetStatus(codes.Error, err.Error())
	}
}
