// Package rpc is the console's API: decode, call the domain, encode, map the error.
package rpc

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/shares"
	"fairlead.dev/services/console/internal/alert"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/condition"
	"fairlead.dev/services/console/internal/config"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/identity"
	"fairlead.dev/services/console/internal/lending"
	"fairlead.dev/services/console/internal/live"
	"fairlead.dev/services/console/internal/login"
	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/recording"
	"fairlead.dev/services/console/internal/removals"
	"fairlead.dev/services/console/internal/rights"
	"fairlead.dev/services/console/internal/seal"
	"fairlead.dev/services/console/internal/sink"
	"fairlead.dev/services/console/internal/store"
	clusterviews "fairlead.dev/services/console/internal/views"
	"fairlead.dev/services/console/internal/watch"
)

// Endpoints says where the hub's services are reached from outside of it.
type Endpoints struct {
	Console      func() string // known once the listener is
	Pages        func() string // where people open the pages
	Gitcaches    []string
	Distributors []string
	Tunnels      []string
}

// Deps is what the handlers work with.
type Deps struct {
	// Kinds are all kinds of resources.
	Kinds     descriptor.Table
	Catalog   *catalog.Catalog
	Authority *identity.Authority
	Hub       *watch.Hub
	Board     *live.Board
	Views     *clusterviews.Board
	Events    *event.Log
	Away      *outage.Outage // the database, as requests meet it
	Audit     *audit.Log
	Accesses  *audit.Accesses
	Rights    *rights.Keeper
	Provider  *login.Provider
	Config    *config.Resolver
	Removals  *removals.Keeper
	Lending   *lending.Keeper
	// Recordings are of shells.
	Recordings *recording.Keeper
	Sinks      *sink.Deliverer
	Alerts     *alert.Keeper
	// OpenBackend connects to backends that are only tried.
	OpenBackend config.Opener
	// Condition is how the hub is.
	Condition *condition.Keeper
	// Store is backed up.
	Store *store.Store
	// Seal keeps what a browser holds for the console.
	Seal      *seal.Box
	Endpoints Endpoints
	// Cookies says that browsers reach the console over TLS, so that they keep sessions.
	Cookies bool
	Log     *slog.Logger

	looks *shares.Shares // of people, in streams; set by Mounts
}

// Mounts returns all services of the console.
func Mounts(d Deps) []server.Mount {
	d.looks = shares.New(maxLooks)
	all := slices.Concat((&browsers{d}).mounts(), catalogMounts(d), writeMounts(d), configMounts(d), sinkMounts(d), alertMounts(d), viewSetMounts(d), syncMounts(d), identityMounts(d), readMounts(d), viewMounts(d), adminMounts(d))
	for _, of := range d.Kinds {
		if mount, _ := of.Serves(); mount != nil {
			all = append(all, mount(d.door()))
		}
	}
	return all
}

func catalogMounts(d Deps) []server.Mount {
	return []server.Mount{
		server.RPC(consolev1connect.SourceServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewSourceServiceHandler(&sources{d}, o...)
		}),
		server.RPC(consolev1connect.ClusterServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewClusterServiceHandler(&clusters{d}, o...)
		}),
		server.RPC(consolev1connect.ServiceServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewServiceServiceHandler(&services{d}, o...)
		}),
		server.RPC(consolev1connect.SecretServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewSecretServiceHandler(&secrets{d}, o...)
		}),
		server.RPC(consolev1connect.HeadServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewHeadServiceHandler(&heads{d}, o...)
		}),
		server.RPC(consolev1connect.StatusServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewStatusServiceHandler(&statuses{d}, o...)
		}),
		server.RPC(consolev1connect.IdentityServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewIdentityServiceHandler(&identities{d}, o...)
		}),
		server.RPC(consolev1connect.CatalogServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			path, h := consolev1connect.NewCatalogServiceHandler(&follow{d}, o...)
			return path, withDeadlines(h)
		}),
		server.RPC(consolev1connect.AuditServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			path, h := consolev1connect.NewAuditServiceHandler(&audits{d}, o...)
			return path, withDeadlines(h)
		}),
	}
}

// fail maps an error of the domain.
func (d Deps) fail(ctx context.Context, err error) error { return fail(ctx, d.Log, d.Away, err) }

// actor is who calls, as the log and the history name it.
func actor(ctx context.Context) string {
	id, ok := platform.FromContext(ctx)
	if !ok {
		return ""
	}
	return id.Subject()
}

// by is who calls, for what it writes.
func by(ctx context.Context) catalog.By {
	out := catalog.By{Subject: actor(ctx), Time: time.Now()}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		out.TraceID = span.TraceID().String()
	}
	out.Identity, _ = platform.FromContext(ctx)
	if call, ok := connect.CallInfoForHandlerContext(ctx); ok {
		out.Remote = call.Peer().Addr
	} else {
		out.Remote = peerOf(ctx).remote
	}
	if host, _, err := net.SplitHostPort(out.Remote); err == nil {
		out.Remote = host
	}
	return out
}

// sendTimeout is how long a follower may take to take a message in before it is cut off.
const sendTimeout = 30 * time.Second

type deadlineKey struct{}

// withDeadlines lets a stream's handler bound its sends, which Connect has no word for.
func withDeadlines(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), deadlineKey{}, http.NewResponseController(w))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// bounded sends with a deadline: a follower that doesn't read loses its stream.
func bounded(ctx context.Context, timeout time.Duration, send func() error) error {
	control, ok := ctx.Value(deadlineKey{}).(*http.ResponseController)
	if !ok || control.SetWriteDeadline(time.Now().Add(timeout)) != nil {
		return send() // not a connection with deadlines
	}
	err := send()
	_ = control.SetWriteDeadline(time.Time{}) // the deadline could be set, so it can be lifted
	return err
}
