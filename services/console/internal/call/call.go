// Package call has what the handlers of all services of the console know of a call: its caller, as the history and the
// trail name it, the deadlines of the messages that a stream sends, and the code that an error becomes.
package call

import (
	"context"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/catalog"
)

// Actor is the caller, as the log and the history name it.
func Actor(ctx context.Context) string {
	id, ok := identity.FromContext(ctx)
	if !ok {
		return ""
	}
	return id.Subject()
}

// By is the caller, for what it writes.
func By(ctx context.Context) catalog.By {
	out := catalog.By{Subject: Actor(ctx), Time: time.Now()}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		out.TraceID = span.TraceID().String()
	}
	out.Identity, _ = identity.FromContext(ctx)
	if call, ok := connect.CallInfoForHandlerContext(ctx); ok {
		out.Remote = call.Peer().Addr
	} else {
		out.Remote = originOf(ctx).remote
	}
	if host, _, err := net.SplitHostPort(out.Remote); err == nil {
		out.Remote = host
	}
	return out
}

// Who is the caller, for the trail.
func Who(ctx context.Context) audit.Who {
	b := By(ctx)
	program := originOf(ctx).program
	if call, ok := connect.CallInfoForHandlerContext(ctx); ok {
		program = call.RequestHeader().Get("User-Agent")
	}
	return audit.Who{Identity: b.Identity, Remote: b.Remote, Program: program, TraceID: b.TraceID}
}

// Peer is the address that wrong credentials are counted for.
func Peer(ctx context.Context) string {
	call, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return ""
	}
	return dialpolicy.Network(call.Peer().Addr)
}

type originKey struct{}

// origin is where a plain request comes from, and from which program.
type origin struct{ remote, program string }

// WithOrigin is the context of a plain request for what wants to know where it comes from.
func WithOrigin(ctx context.Context, r *http.Request) context.Context {
	return context.WithValue(ctx, originKey{}, origin{r.RemoteAddr, r.UserAgent()})
}

func originOf(ctx context.Context) origin {
	of, _ := ctx.Value(originKey{}).(origin)
	return of
}
