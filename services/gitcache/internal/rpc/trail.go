package rpc

import (
	"context"
	"net"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/audit"
	"fairlead.dev/platform/identity"
)

// The actions of a gitcache in the audit trail.
const (
	actionRead    = "source.read"
	actionRefresh = "source.refresh"
	actionMove    = "shard.move"
	actionDrain   = "shard.drain"
)

// Actions are the procedures that change something or show what is in a repository, with the action that each call
// leaves in the audit trail. The others show states of sources and replicas, or are for services of the hub only.
func Actions() map[string]string {
	return map[string]string{
		gitcachev1connect.SourceServiceListCommitsProcedure:   actionRead,
		gitcachev1connect.SourceServiceListTreeProcedure:      actionRead,
		gitcachev1connect.SourceServiceReadFileProcedure:      actionRead,
		gitcachev1connect.SourceServicePackServiceProcedure:   actionRead,
		gitcachev1connect.SourceServiceRefreshSourceProcedure: actionRefresh,
		gitcachev1connect.ShardServiceMoveSourceProcedure:     actionMove,
		gitcachev1connect.ShardServiceSetDrainingProcedure:    actionDrain,
	}
}

// Trail is an interceptor that records each call of Actions, refused ones, too. A call that another gitcache hands on
// is in the trail already, as its first caller's.
func Trail(recorder *audit.Recorder) connect.Interceptor { return trail{recorder, Actions()} }

type trail struct {
	recorder *audit.Recorder
	actions  map[string]string
}

// WrapUnary implements connect.Interceptor.
func (t trail) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		resp, err := next(ctx, req)
		t.record(ctx, req.Spec(), req.Peer(), req.Any(), err)
		return resp, err
	}
}

// WrapStreamingClient implements connect.Interceptor: it is one of handlers.
func (t trail) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor. A stream has its event when it ends.
func (t trail) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		heard := &hearing{StreamingHandlerConn: conn}
		err := next(ctx, heard)
		t.record(ctx, conn.Spec(), conn.Peer(), heard.request, err)
		return err
	}
}

// hearing keeps the request of a stream of answers.
type hearing struct {
	connect.StreamingHandlerConn

	request any
}

// Receive implements connect.StreamingHandlerConn.
func (h *hearing) Receive(m any) error {
	err := h.StreamingHandlerConn.Receive(m)
	if err == nil {
		h.request = m
	}
	return err
}

func (t trail) record(ctx context.Context, spec connect.Spec, peer connect.Peer, req any, err error) {
	action, audited := t.actions[spec.Procedure]
	if who := caller(ctx); audited && !who.Has(identity.RoleGitcache) {
		t.recorder.Record(event(ctx, spec.Procedure, peer, req, action, who, err))
	}
}

func event(ctx context.Context, procedure string, peer connect.Peer, req any, action string, who identity.Identity, err error) audit.Event {
	e := audit.Event{
		Actor: audit.Of(who), Action: action, Verb: procedure[strings.LastIndexByte(procedure, '/')+1:], Code: statusOf(err), Remote: peer.Addr,
	}
	if host, _, splitErr := net.SplitHostPort(e.Remote); splitErr == nil {
		e.Remote = host
	}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		e.TraceID = span.TraceID().String()
	}
	describe(&e, req)
	if err != nil {
		e.Reason = err.Error()
	}
	return e
}

// describe says what a call is about. A resource is source or service, revision and path of what was read.
func describe(e *audit.Event, req any) {
	if one, ok := req.(interface{ GetName() string }); ok {
		e.Resource, e.Name = "source", one.GetName()
	}
	if of, ok := req.(interface{ GetSource() string }); ok {
		e.Resource, e.Name = "source", of.GetSource()
	}
	if of, ok := req.(interface{ GetService() string }); ok {
		e.Resource, e.Name = "service", of.GetService()
	}
	if at, ok := req.(interface{ GetRevision() string }); ok {
		e.Resource += "@" + at.GetRevision()
	}
	if within, ok := req.(interface{ GetPath() string }); ok && within.GetPath() != "" {
		e.Resource += "/" + strings.TrimPrefix(within.GetPath(), "/")
	}
	to, ok := req.(interface{ GetReplica() string })
	if !ok {
		return
	}
	if e.Name == "" {
		e.Resource, e.Name = "gitcache", to.GetReplica()
	} else {
		e.Reason = "to " + to.GetReplica()
	}
	if drain, ok := req.(interface{ GetDraining() bool }); ok && !drain.GetDraining() {
		e.Reason = "it takes sources again"
	}
}

// statusOf is the HTTP status that stands for an error in the trail.
func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	switch connect.CodeOf(err) {
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodeInvalidArgument:
		return http.StatusBadRequest
	case connect.CodeFailedPrecondition:
		return http.StatusConflict
	case connect.CodeInternal, connect.CodeUnknown:
		return http.StatusInternalServerError
	default:
		return http.StatusServiceUnavailable
	}
}
