package rpc

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/pulse"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/gitcache/internal/authz"
	"fairlead.dev/services/gitcache/internal/console"
	"fairlead.dev/services/gitcache/internal/shards"
)

const defaultShards, maxShards = 100, 1000

// Shards is ShardService.
type Shards struct {
	// Ready says why this replica can't answer anything yet.
	Ready  func() error
	Rights authz.Rights
	Shards *shards.Shards
	// Members lists who is in a group of the store by which replicas agree.
	Members func(ctx context.Context, group string) ([]coordination.Member, error)
	// Replica is this one's name, Kind that of the store by which replicas agree, and Store how the store answers.
	Replica, Kind string
	Store         *pulse.Pulse
}

// ListReplicas returns the gitcaches that live, and the replicas of other services.
func (s *Shards) ListReplicas(ctx context.Context, _ *gitcachev1.ListReplicasRequest) (*gitcachev1.ListReplicasResponse, error) {
	if err := s.Ready(); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	if err := s.Rights.View(caller(ctx)); err != nil {
		return nil, err
	}
	resp := &gitcachev1.ListReplicasResponse{}
	for _, r := range s.Shards.Replicas() {
		resp.Replicas = append(resp.Replicas, &gitcachev1.Replica{
			Name: r.Name, Url: r.URL, Draining: r.Draining, Owned: int32(r.Owned), Copies: int32(r.Copies),
			Preferred: int32(r.Preferred), Version: r.Version, StartTime: console.Timestamp(r.Started),
		})
	}
	if err := s.others(ctx, resp); err != nil {
		resp.OthersMissing = "the store by which replicas agree does not give them" // GetCoordination tells why
	}
	return resp, nil
}

// others adds the replicas of the services that share the store.
func (s *Shards) others(ctx context.Context, to *gitcachev1.ListReplicasResponse) error {
	for _, service := range []string{identity.ServiceDistributor, identity.ServiceTunnel} {
		members, err := s.Members(ctx, service)
		if err != nil {
			return fmt.Errorf("list replicas of the %s: %w", service, err)
		}
		for _, m := range members {
			began, _ := time.Parse(time.RFC3339, m.Meta[coordination.MetaStarted])
			to.Others = append(to.Others, &gitcachev1.HubReplica{
				Service: service, Name: m.ID, Url: m.URL, Draining: m.Meta[coordination.MetaDraining] != "",
				Version: m.Meta[coordination.MetaVersion], StartTime: console.Timestamp(began),
			})
		}
	}
	return nil
}

// GetCoordination returns how this replica reaches the store by which the replicas agree.
func (s *Shards) GetCoordination(context.Context, *gitcachev1.GetCoordinationRequest) (*gitcachev1.GetCoordinationResponse, error) {
	beat := s.Store.Last()
	resp := &gitcachev1.GetCoordinationResponse{
		Replica: s.Replica, Kind: s.Kind, Since: console.Timestamp(beat.Since), AskTime: console.Timestamp(beat.Asked), RoundTrip: durationpb.New(beat.Took),
	}
	if beat.Problem != nil {
		resp.Problem = beat.Problem.Error()
	}
	return resp, nil
}

// ListShards returns a page of sources with who owns each and who should.
func (s *Shards) ListShards(ctx context.Context, req *gitcachev1.ListShardsRequest) (*gitcachev1.ListShardsResponse, error) {
	if err := s.Ready(); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	if err := s.Rights.View(caller(ctx)); err != nil {
		return nil, err
	}
	after, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("page_token: not one that was handed out"))
	}
	page, more, err := s.Shards.List(ctx, size(req.GetPageSize(), defaultShards, maxShards), string(after), req.GetReplica())
	if err != nil {
		return nil, shardError(err)
	}
	resp := &gitcachev1.ListShardsResponse{}
	for _, shard := range page {
		resp.Shards = append(resp.Shards, &gitcachev1.Shard{
			Source: shard.Name, Owner: shard.Owner, Epoch: shard.Epoch, Preferred: shard.Preferred, Note: shard.Note,
		})
	}
	if more {
		resp.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(page[len(page)-1].Name))
	}
	return resp, nil
}

// SetDraining makes a replica hand over what it owns, or takes it back.
func (s *Shards) SetDraining(ctx context.Context, req *gitcachev1.SetDrainingRequest) (*gitcachev1.SetDrainingResponse, error) {
	if err := s.Shards.Drain(ctx, req.GetReplica(), req.GetDraining(), forwarded(ctx)); err != nil {
		return nil, shardError(err)
	}
	return &gitcachev1.SetDrainingResponse{}, nil
}

// MoveSource hands a source over to a replica.
func (s *Shards) MoveSource(ctx context.Context, req *gitcachev1.MoveSourceRequest) (*gitcachev1.MoveSourceResponse, error) {
	if err := s.Ready(); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	if err := s.Shards.Move(ctx, req.GetSource(), req.GetReplica(), forwarded(ctx)); err != nil {
		return nil, shardError(err)
	}
	return &gitcachev1.MoveSourceResponse{}, nil
}

// shardError chooses the code; what the replica said that the call was handed on to stays.
func shardError(err error) error {
	if refused, ok := errors.AsType[*refusal.Error](err); ok {
		return connect.NewError(refused.Reason.Code(), refused)
	}
	if theirs, ok := errors.AsType[*connect.Error](err); ok {
		return connect.NewError(theirs.Code(), errors.New(theirs.Message()))
	}
	return connect.NewError(connect.CodeUnavailable, err)
}
