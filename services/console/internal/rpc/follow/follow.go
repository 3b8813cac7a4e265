// Package follow serves what pages, dashboards and watchers look at, and the streams by which they go on looking:
// resources and queries of them, views of clusters, events and the audit trail.
package follow

import (
	"context"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/shares"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/index"
	clusterviews "fairlead.dev/services/console/internal/views"
)

// Deps is what the handlers work with.
type Deps struct {
	descriptor.Door
	// Kinds are all kinds of resources.
	Kinds  descriptor.Table
	Board  *index.Index
	Views  *clusterviews.Board
	Events *event.Log
	Audit  *audit.Log

	looks *shares.Shares // of people, in streams; set by Mounts
}

// Mounts are the services of this room.
func Mounts(d Deps) []server.Mount {
	d.looks = shares.New(maxLooks)
	return []server.Mount{
		server.RPC(consolev1connect.LiveServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			path, h := consolev1connect.NewLiveServiceHandler(&lives{d}, o...)
			return path, call.WithDeadlines(h)
		}),
		server.RPC(consolev1connect.EventServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			path, h := consolev1connect.NewEventServiceHandler(&events{d}, o...)
			return path, call.WithDeadlines(h)
		}),
		server.RPC(consolev1connect.ClusterViewServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			path, h := consolev1connect.NewClusterViewServiceHandler(&views{d}, o...)
			return path, call.WithDeadlines(h)
		}),
		server.RPC(consolev1connect.AuditServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			path, h := consolev1connect.NewAuditServiceHandler(&audits{d}, o...)
			return path, call.WithDeadlines(h)
		}),
	}
}

// Policy says who may call these. Views are for people; hub services have no business with them.
func Policy() identity.Policy {
	return identity.Policy{
		consolev1connect.LiveServiceWatchResourcesProcedure: identity.RoleUser,
		consolev1connect.LiveServiceCountResourcesProcedure: identity.RoleUser,
		consolev1connect.LiveServiceSearchProcedure:         identity.RoleUser,
		consolev1connect.LiveServiceWatchQueriesProcedure:   identity.RoleUser,

		consolev1connect.EventServiceListEventsProcedure:  identity.RoleUser,
		consolev1connect.EventServiceWatchEventsProcedure: identity.RoleUser,

		consolev1connect.ClusterViewServiceGetClusterViewProcedure:    identity.RoleUser,
		consolev1connect.ClusterViewServiceListClusterViewsProcedure:  identity.RoleUser,
		consolev1connect.ClusterViewServiceListViewRowsProcedure:      identity.RoleUser,
		consolev1connect.ClusterViewServiceGetViewCurvesProcedure:     identity.RoleUser,
		consolev1connect.ClusterViewServiceWatchClusterViewsProcedure: identity.RoleUser,

		consolev1connect.AuditServiceRecordAuditEventsProcedure: identity.RoleHub,
		consolev1connect.AuditServiceListAuditEventsProcedure:   identity.RoleAdmin,
		consolev1connect.AuditServiceWatchAuditEventsProcedure:  identity.RoleAdmin,
	}
}

// maxLooks is how many streams one person, or one service account, looks on by: some tabs, dashboards and programs.
// Each that is not read keeps what it was about to be sent.
const maxLooks = 100

// look counts a stream of the caller. Call leave at its end.
func (d Deps) look(ctx context.Context) (leave func(), err error) {
	caller, _ := identity.FromContext(ctx) // the policy has seen to it
	subject := caller.Subject()
	if !d.looks.Take(subject, 1) {
		err := connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("%s has %d streams open: close some and dial again", subject, maxLooks))
		err.Meta().Set("Retry-After", "10")
		return nil, err
	}
	return func() { d.looks.Give(subject, 1) }, nil
}
