package peers

import (
	"context"

	"connectrpc.com/connect"

	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/coordination"
)

func (p *Peers) shards(at coordination.Member) gitcachev1connect.ShardServiceClient {
	return gitcachev1connect.NewShardServiceClient(p.HTTP(at), at.URL, connect.WithReadMaxBytes(maxManifestBytes))
}

// SetDraining hands the call on to the replica that it is about.
func (p *Peers) SetDraining(ctx context.Context, at coordination.Member, draining bool) error {
	_, err := p.shards(at).SetDraining(ctx, &gitcachev1.SetDrainingRequest{Replica: at.ID, Draining: draining})
	return err
}

// MoveSource hands the call on to the owner of the source.
func (p *Peers) MoveSource(ctx context.Context, at coordination.Member, source, replica string) error {
	_, err := p.shards(at).MoveSource(ctx, &gitcachev1.MoveSourceRequest{Source: source, Replica: replica})
	return err
}
