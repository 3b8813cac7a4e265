// Package rpc is the service's handlers: decode, call the domain, say the error.
package rpc

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	"fairlead.dev/gen/fairlead/artifact/v1/artifactv1connect"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/gitcache/internal/hub"
	"fairlead.dev/services/gitcache/internal/origin"
	"fairlead.dev/services/gitcache/internal/owner"
	"fairlead.dev/services/gitcache/internal/rpc/wire"
)

// Policy says who may call what.
func Policy() identity.Policy {
	return identity.Policy{
		artifactv1connect.ArtifactServiceResolveProcedure:     ArtifactRole,
		gitcachev1connect.SourceServiceListSourcesProcedure:   SourceRole,
		gitcachev1connect.SourceServiceGetSourceProcedure:     SourceRole,
		gitcachev1connect.SourceServiceWatchSourcesProcedure:  SourceRole,
		gitcachev1connect.SourceServiceRefreshSourceProcedure: identity.RoleUser,
		gitcachev1connect.SourceServiceListCommitsProcedure:   SourceRole,
		gitcachev1connect.SourceServiceListTreeProcedure:      SourceRole,
		gitcachev1connect.SourceServiceReadFileProcedure:      SourceRole,
	}
}

// SourceRole may look at sources: users, and gitcaches that hand on what users ask.
const SourceRole = identity.RoleUser | identity.RoleGitcache

// ArtifactRole may resolve and download: distributors, and the other gitcaches.
const ArtifactRole = identity.RoleDistributor | identity.RoleGitcache

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
	forwarded := false
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
		forwarded = wire.IsForwarded(info.RequestHeader())
	}
	answers, err := a.Origin.Resolve(ctx, wire.Queries(req), forwarded)
	if err != nil {
		return nil, connect.NewError(connect.CodeCanceled, err)
	}
	return wire.Response(answers), nil
}

// Bytes is GET /v1/artifacts/<digest>: from the store, else built again from a mirror, else from
// another replica.
func Bytes(store *artifact.Store, built, peers artifact.FetchFunc) http.Handler {
	find := func(ctx context.Context, d artifact.Digest) (io.ReadCloser, error) {
		r, err := built(ctx, d)
		if err == nil || wire.Forwarded(ctx) {
			return r, err
		}
		return peers(ctx, d)
	}
	anyRole := func(*http.Request, artifact.Digest) error { return nil } // the mount asks for the role
	serve := store.FillHandler(anyRole, find)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wire.IsForwarded(r.Header) {
			r = r.WithContext(wire.WithForwarded(r.Context()))
		}
		serve.ServeHTTP(w, r)
	})
}

// Sources is SourceService.
type Sources struct {
	gitcachev1connect.UnimplementedSourceServiceHandler

	Catalog interface {
		Source(name string) (origin.Source, bool)
	}
	Owner interface {
		State(uid string) (owner.State, bool)
		Refresh(uid string) bool
	}
	Replica string
	// Holder names the replica that holds a source.
	Holder func(ctx context.Context, uid string) (string, error)
	// Wake asks the owner, whoever it is, to poll.
	Wake func(ctx context.Context, uid string) error
}

// GetSource tells the live state of a source.
func (s *Sources) GetSource(ctx context.Context, req *gitcachev1.GetSourceRequest) (*gitcachev1.GetSourceResponse, error) {
	source, ok := s.Catalog.Source(req.GetName())
	if !ok {
		return nil, notFound(req.GetName())
	}
	state, _ := s.Owner.State(source.UID)
	live := &gitcachev1.LiveSource{Name: req.GetName(), OwnedHere: state.Owned}
	if state.Owned {
		live.Owner, live.Epoch = s.Replica, state.Epoch
		live.LastPollTime, live.NextPollTime = hub.Timestamp(state.LastPoll), hub.Timestamp(state.NextPoll)
		live.Heads, live.Problem = hub.HeadMessages(state.Heads), hub.ProblemMessage(state.Problem)
		return &gitcachev1.GetSourceResponse{Source: live}, nil
	}
	// With coordination down the owner is not known; the rest is.
	live.Owner, _ = s.Holder(ctx, source.UID)
	live.Heads, live.Problem = hub.HeadMessages(source.Heads), hub.ProblemMessage(owner.Problem{Message: source.Problem})
	return &gitcachev1.GetSourceResponse{Source: live}, nil
}

// RefreshSource makes the owner poll now.
func (s *Sources) RefreshSource(ctx context.Context, req *gitcachev1.RefreshSourceRequest) (*gitcachev1.RefreshSourceResponse, error) {
	source, ok := s.Catalog.Source(req.GetName())
	if !ok {
		return nil, notFound(req.GetName())
	}
	if s.Owner.Refresh(source.UID) {
		return &gitcachev1.RefreshSourceResponse{}, nil
	}
	if err := s.Wake(ctx, source.UID); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable,
			fmt.Errorf("source %q: its owner can't be told now. It polls by itself at its next interval", req.GetName()))
	}
	return &gitcachev1.RefreshSourceResponse{}, nil
}

func notFound(name string) error {
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("source %q is not in the catalog. Apply it, or correct the name", name))
}
