package gitcache

import (
	"context"
	"fmt"
	"strings"

	"fairlead.dev/e2e/process"
	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	gitcachev1 "fairlead.dev/gen/fairlead/gitcache/v1"
)

// FollowAs makes a source of any kind, and a service of it whose source and cluster are filled in.
func (f *Fleet) FollowAs(ctx context.Context, source string, spec *consolev1.SourceSpec, service string, of *consolev1.ServiceSpec) error {
	_, err := f.api.clusters.UpdateCluster(ctx, &consolev1.UpdateClusterRequest{
		Cluster: &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: clusterName}}, AllowMissing: true,
	})
	if err != nil {
		return fmt.Errorf("make cluster: %w", err)
	}
	_, err = f.api.sources.UpdateSource(ctx, &consolev1.UpdateSourceRequest{
		Source: &consolev1.Source{Metadata: &consolev1.Metadata{Name: source}, Spec: spec}, AllowMissing: true,
	})
	if err != nil {
		return fmt.Errorf("make source: %w", err)
	}
	of.Source, of.Cluster = source, clusterName
	_, err = f.api.services.UpdateService(ctx, &consolev1.UpdateServiceRequest{
		Service: &consolev1.Service{Metadata: &consolev1.Metadata{Name: service}, Spec: of}, AllowMissing: true,
	})
	if err != nil {
		return fmt.Errorf("make service: %w", err)
	}
	return nil
}

// ResolvedTo waits until a source has a head that was resolved to what begins so, and the artifact of all its files is
// made.
func (f *Fleet) ResolvedTo(ctx context.Context, source, prefix string) error {
	return process.Await(ctx, source+" is at "+prefix, func(ctx context.Context) error {
		got, err := f.api.sources.GetSource(ctx, &consolev1.GetSourceRequest{Name: source})
		if err != nil {
			return err
		}
		for _, h := range got.GetSource().GetStatus().GetHeads() {
			if !strings.HasPrefix(h.GetResolvedRef(), prefix) {
				continue
			}
			resp, err := f.api.artifacts(f.Caches()[0].URL).Resolve(ctx, &artifactv1.ResolveRequest{
				Queries: []*artifactv1.Query{{Source: source, Revision: h.GetRevision().GetCommit()}},
			})
			if err == nil && resp.GetResults()[0].GetError() != nil {
				err = fmt.Errorf("resolve: %s", resp.GetResults()[0].GetError().GetMessage())
			}
			return err
		}
		return fmt.Errorf("no head; problem: %s", got.GetSource().GetStatus().GetProblem().GetMessage())
	})
}

// Polled asks for a poll, and waits until it is done.
func (f *Fleet) Polled(ctx context.Context, c *Cache, source string) error {
	live := f.api.live(c.URL)
	before, err := live.GetSource(ctx, &gitcachev1.GetSourceRequest{Name: source})
	if err != nil {
		return err
	}
	if err := f.Refresh(ctx, c, source); err != nil {
		return err
	}
	return process.Await(ctx, "a poll of "+source, func(ctx context.Context) error {
		now, err := live.GetSource(ctx, &gitcachev1.GetSourceRequest{Name: source})
		if err == nil && !now.GetSource().GetLastPollTime().AsTime().After(before.GetSource().GetLastPollTime().AsTime()) {
			err = fmt.Errorf("%s is not polled yet", source)
		}
		return err
	})
}
