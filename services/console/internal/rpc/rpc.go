// Package rpc is the console's API: decode, call the domain, encode, map the error. It mounts all services, and holds
// those that write resources, roll services out and keep the hub. What people sign in with is in signin, what pages
// look at in follow, and the API of a kind in the folder of the kind.
package rpc

import (
	"context"
	"log/slog"
	"net/http"
	"slices"

	"connectrpc.com/connect"

	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/server"
	alerts "fairlead.dev/services/console/internal/alert"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/condition"
	"fairlead.dev/services/console/internal/config"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/identity"
	"fairlead.dev/services/console/internal/index"
	"fairlead.dev/services/console/internal/intake"
	"fairlead.dev/services/console/internal/kinds/alert"
	"fairlead.dev/services/console/internal/kinds/backend"
	"fairlead.dev/services/console/internal/kinds/serviceaccount"
	"fairlead.dev/services/console/internal/kinds/sink"
	"fairlead.dev/services/console/internal/kinds/viewset"
	"fairlead.dev/services/console/internal/lending"
	"fairlead.dev/services/console/internal/login"
	"fairlead.dev/services/console/internal/outage"
	"fairlead.dev/services/console/internal/recording"
	"fairlead.dev/services/console/internal/removals"
	"fairlead.dev/services/console/internal/rpc/follow"
	"fairlead.dev/services/console/internal/rpc/signin"
	"fairlead.dev/services/console/internal/seal"
	deliver "fairlead.dev/services/console/internal/sink"
	"fairlead.dev/services/console/internal/store"
	clusterviews "fairlead.dev/services/console/internal/views"
)

// Deps is what the handlers work with.
type Deps struct {
	// Kinds are all kinds of resources.
	Kinds     descriptor.Table
	Catalog   *catalog.Catalog
	Intake    *intake.Intake
	Authority *identity.Authority
	Hub       *feed.Feed
	Board     *index.Index
	Views     *clusterviews.Board
	Events    *event.Log
	Away      *outage.Outage // the database, as requests meet it
	Audit     *audit.Log
	Accesses  *audit.Accesses
	Rights    *authz.Rules
	Provider  *login.Provider
	Config    *config.Resolver
	Removals  *removals.Desk
	Lending   *lending.Desk
	// Recordings are of shells.
	Recordings *recording.Archive
	Sinks      *deliver.Deliverer
	Alerts     *alerts.Evaluator
	// OpenBackend connects to backends that are only tried.
	OpenBackend config.Opener
	// Condition is how the hub is.
	Condition *condition.Observer
	// Store is backed up.
	Store *store.Store
	// Seal keeps what a browser holds for the console.
	Seal      *seal.Box
	Endpoints signin.Endpoints
	// Cookies says that browsers reach the console over TLS, so that they keep sessions.
	Cookies bool
	Log     *slog.Logger
}

// Mounts returns all services of the console.
func Mounts(d Deps) []server.Mount {
	door := d.door()
	all := slices.Concat(
		catalogMounts(d), writeMounts(d), configMounts(d), syncMounts(d), adminMounts(d),
		signin.Mounts(signin.Deps{
			Door: door, Authority: d.Authority, Rights: d.Rights, Provider: d.Provider, Lending: d.Lending,
			Recordings: d.Recordings, Accesses: d.Accesses, Seal: d.Seal, Endpoints: d.Endpoints, Cookies: d.Cookies,
		}),
		follow.Mounts(follow.Deps{
			Door: door, Kinds: d.Kinds, Board: d.Board, Views: d.Views, Events: d.Events, Audit: d.Audit,
		}),
		kindMounts(d),
	)
	for _, of := range d.Kinds {
		if mount, _ := of.Serves(); mount != nil {
			all = append(all, mount(door))
		}
	}
	return all
}

// kindMounts are the APIs of kinds that work with more than a Door.
func kindMounts(d Deps) []server.Mount {
	door := d.door()
	return []server.Mount{
		serviceaccount.Mount(serviceaccount.Deps{Door: door, Reload: d.reload}),
		backend.Mount(backend.Deps{Door: door, Config: d.Config, Open: d.OpenBackend, Accesses: d.Accesses}),
		sink.Mount(sink.Deps{Door: door, Rights: d.Rights, Sinks: d.Sinks, Accesses: d.Accesses}),
		viewset.Mount(viewset.Deps{Door: door, Views: d.Views}),
		alert.Mount(alert.Deps{Door: door, Rights: d.Rights, Alerts: d.Alerts, Accesses: d.Accesses}),
	}
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
		server.RPC(consolev1connect.CatalogServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			path, h := consolev1connect.NewCatalogServiceHandler(&followers{d}, o...)
			return path, call.WithDeadlines(h)
		}),
	}
}

// fail maps an error of the domain.
func (d Deps) fail(ctx context.Context, err error) error { return call.Fail(ctx, d.Log, d.Away, err) }
