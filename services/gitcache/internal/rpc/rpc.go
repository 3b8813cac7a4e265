// Package rpc is the service's handlers: decode, call the domain, say the error.
package rpc

import (
	"context"
	"io"
	"net/http"

	"connectrpc.com/connect"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	"fairlead.dev/gen/fairlead/artifact/v1/artifactv1connect"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/artifact/ticket"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/gitcache/internal/origin"
	"fairlead.dev/services/gitcache/internal/rpc/wire"
)

// Policy says who may call what.
func Policy() identity.Policy {
	return identity.Policy{
		artifactv1connect.ArtifactServiceResolveProcedure:      ArtifactRole,
		gitcachev1connect.SourceServiceListSourcesProcedure:    SourceRole,
		gitcachev1connect.SourceServiceGetSourceProcedure:      SourceRole,
		gitcachev1connect.SourceServiceWatchSourcesProcedure:   SourceRole,
		gitcachev1connect.SourceServiceRefreshSourceProcedure:  identity.RoleUser,
		gitcachev1connect.SourceServiceListCommitsProcedure:    SourceRole,
		gitcachev1connect.SourceServiceListTreeProcedure:       SourceRole,
		gitcachev1connect.SourceServiceReadFileProcedure:       SourceRole,
		gitcachev1connect.SourceServicePackServiceProcedure:    SourceRole,
		gitcachev1connect.ShardServiceListReplicasProcedure:    SourceRole,
		gitcachev1connect.ShardServiceListShardsProcedure:      SourceRole,
		gitcachev1connect.ShardServiceGetCoordinationProcedure: identity.RoleAdmin,
		gitcachev1connect.ShardServiceSetDrainingProcedure:     ShardRole,
		gitcachev1connect.ShardServiceMoveSourceProcedure:      ShardRole,
		gitcachev1connect.HandoffServiceCopyMirrorProcedure:    identity.RoleGitcache,
		gitcachev1connect.HandoffServiceTakeSourceProcedure:    identity.RoleGitcache,
	}
}

// SourceRole may look at sources: users, and gitcaches that hand on what users ask.
const SourceRole = identity.RoleUser | identity.RoleGitcache

// ShardRole may move ownership: administrators, and gitcaches that hand on what they ask.
const ShardRole = identity.RoleAdmin | identity.RoleGitcache

// ArtifactRole may resolve and download: distributors, and the other gitcaches.
const ArtifactRole = identity.RoleDistributor | identity.RoleGitcache

// BytesRole may download: agents, too, what they have tickets for.
const BytesRole = ArtifactRole | identity.RoleAgent

// Artifacts is ArtifactService.
type Artifacts struct {
	Origin *origin.Origin
	// Ready says why this replica can't answer anything yet.
	Ready func() error
}

// Resolve answers a batch of queries.
func (a *Artifacts) Resolve(ctx context.Context, req *artifactv1.ResolveRequest) (*artifactv1.ResolveResponse, error) {
	if err := a.Ready(); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	answers, err := a.Origin.Resolve(ctx, wire.Queries(req), forwarded(ctx))
	if err != nil {
		return nil, connect.NewError(connect.CodeCanceled, err)
	}
	return wire.Response(answers), nil
}

// Tickets gives agents what they have tickets for, and the hub's services all. An artifact that is refused is answered
// as not found.
func Tickets(tickets ticket.Signer, refused func(r *http.Request, digest, reason string)) artifact.AuthorizeFunc {
	return func(r *http.Request, d artifact.Digest) error {
		id, _ := identity.FromContext(r.Context())
		if id.Kind != identity.KindAgent || tickets.Valid(r, id.ClusterUID, d) {
			return nil // the mount asks for the role
		}
		refused(r, string(d), "it came with no valid ticket")
		return artifact.ErrNotFound
	}
}

// Bytes is GET /v1/artifacts/<digest>: from the store, else built again from a mirror, else from
// another replica. A replica that is asked by another one asks no replica in turn, and does not wait for one of its own
// callers, for whom it may be asking that very replica.
func Bytes(store *artifact.Store, authorize artifact.AuthorizeFunc, built, peers artifact.FetchFunc) http.Handler {
	find := func(ctx context.Context, d artifact.Digest) (io.ReadCloser, error) {
		r, err := built(ctx, d)
		if err == nil {
			return r, nil
		}
		return peers(ctx, d)
	}
	serve, answer := store.FillHandler(authorize, find), store.FillApartHandler(authorize, built)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wire.IsForwarded(r.Header) {
			answer.ServeHTTP(w, r)
			return
		}
		serve.ServeHTTP(w, r)
	})
}
