package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/kind"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

type histories struct{ Deps }

func (s *histories) ListRevisions(ctx context.Context, req *consolev1.ListRevisionsRequest) (*consolev1.ListRevisionsResponse, error) {
	ref := store.Ref{Kind: descriptor.Numbered(req.GetKind()), Name: req.GetName()}
	list, next, err := s.Catalog.History(ctx, ref, catalog.Page{Size: int(req.GetPageSize()), Token: req.GetPageToken()})
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out := &consolev1.ListRevisionsResponse{NextPageToken: next}
	for _, p := range list {
		r, err := s.revision(ref.Name, p)
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		out.Revisions = append(out.Revisions, r)
	}
	return out, nil
}

func (s *histories) revision(name string, p catalog.Past) (_ *consolev1.Revision, err error) {
	out := &consolev1.Revision{Revision: p.Revision.Revision, Action: p.Action, Author: p.Author, Time: descriptor.Stamp(p.Time)}
	if out.Diff, err = s.diff(name, p.Before, p.After); err != nil || p.After == nil {
		return out, err
	}
	m, err := s.told(p.Before, p.After)
	if err != nil {
		return out, err
	}
	if service, ok := m.(*consolev1.Service); ok {
		decoded, err := state.ReadService(*p.After)
		if err != nil {
			return out, err
		}
		if levers := state.LeversOf(&decoded); levers != nil {
			service.Levers = &consolev1.ServiceLevers{Mode: encodeLever(levers.Mode), Pin: encodeLever(levers.Pin)}
		}
	}
	out.Resource = kind.Wrap(m)
	return out, nil
}

func (s *histories) ListDeployments(ctx context.Context, req *consolev1.ListDeploymentsRequest) (*consolev1.ListDeploymentsResponse, error) {
	list, next, err := s.Catalog.Deployments(ctx, req.GetService(), catalog.Page{Size: int(req.GetPageSize()), Token: req.GetPageToken()})
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.ListDeploymentsResponse{Deployments: descriptor.Each(list, encodeDeployment), NextPageToken: next}, nil
}

func (s *histories) RollbackService(ctx context.Context, req *consolev1.RollbackServiceRequest) (*consolev1.RollbackServiceResponse, error) {
	service, to, err := s.Catalog.RollBack(ctx, call.By(ctx), req.GetService(), catalog.Rollback{
		Deployment: req.GetDeployment(), ETag: req.GetEtag(), Reason: req.GetReason(), Keep: req.GetKeep(), Until: descriptor.Moment(req.GetUntilTime()),
	})
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.RollbackServiceResponse{Service: encodeService(service), Deployment: encodeDeployment(to)}, nil
}

func (s *histories) UndeleteResource(ctx context.Context, req *consolev1.UndeleteResourceRequest) (*consolev1.UndeleteResourceResponse, error) {
	was, err := s.Catalog.Deleted(ctx, store.Ref{Kind: descriptor.Numbered(req.GetKind()), Name: req.GetName()})
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	e, err := s.draftDeleted(ctx, was)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	written, err := s.Catalog.Restore(ctx, call.By(ctx), e, was)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	m, err := s.told(nil, written.After)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.UndeleteResourceResponse{Resource: kind.Wrap(m)}, nil
}

// draftDeleted gets a resource that was deleted ready to be written again: a service with its levers, all else as a
// file would say it.
func (s *histories) draftDeleted(ctx context.Context, was store.Resource) (catalog.Edit, error) {
	if was.Kind == store.KindService {
		return s.Catalog.DraftDeleted(ctx, was)
	}
	d, err := s.described(was)
	if err != nil {
		return catalog.Edit{}, err
	}
	m, err := d.Plain(was)
	if err != nil {
		return catalog.Edit{}, err
	}
	return s.draft(d, m), nil
}

func encodeDeployment(d catalog.Deployment) *consolev1.Deployment {
	out := &consolev1.Deployment{
		Number: d.Number, Cause: encodeCause(d.Cause), Author: d.Author, Commit: encodeRevision(d.Commit), SpecRevision: d.SpecRevision,
		ConfigRevision: d.ConfigRevision, Digest: d.Digest, Outcome: encodeOutcomeOf(d), Message: d.Message,
		FetchTime: descriptor.Stamp(d.FetchTime), DeliverTime: descriptor.Stamp(d.DeliverTime), ApplyTime: descriptor.Stamp(d.ApplyTime), HealthyTime: descriptor.Stamp(d.HealthyTime), EndTime: descriptor.Stamp(d.EndTime),
		Tests: encodeTestSummary(d.Tests), Source: d.Source, Path: d.Path,
	}
	if !d.HealthyTime.IsZero() && !d.Commit.CommitTime.IsZero() {
		out.Total = durationpb.New(d.HealthyTime.Sub(d.Commit.CommitTime))
	}
	return out
}

func encodeCause(c catalog.Cause) consolev1.DeploymentCause {
	switch c {
	case catalog.CauseCommit:
		return consolev1.DeploymentCause_DEPLOYMENT_CAUSE_COMMIT
	case catalog.CauseSpec:
		return consolev1.DeploymentCause_DEPLOYMENT_CAUSE_SPEC
	case catalog.CauseConfig:
		return consolev1.DeploymentCause_DEPLOYMENT_CAUSE_CONFIG
	case catalog.CauseRollback:
		return consolev1.DeploymentCause_DEPLOYMENT_CAUSE_ROLLBACK
	case catalog.CausePin:
		return consolev1.DeploymentCause_DEPLOYMENT_CAUSE_PIN
	}
	return consolev1.DeploymentCause_DEPLOYMENT_CAUSE_UNSPECIFIED
}

// encodeOutcomeOf is what came of a deployment: of one that ended, what it was at its end.
func encodeOutcomeOf(d catalog.Deployment) consolev1.DeploymentOutcome {
	switch {
	case d.Outcome == state.PhaseFailed:
		return consolev1.DeploymentOutcome_DEPLOYMENT_OUTCOME_FAILED
	case d.Outcome == state.PhaseDegraded:
		return consolev1.DeploymentOutcome_DEPLOYMENT_OUTCOME_DEGRADED
	case !d.HealthyTime.IsZero():
		return consolev1.DeploymentOutcome_DEPLOYMENT_OUTCOME_HEALTHY
	case !d.EndTime.IsZero():
		return consolev1.DeploymentOutcome_DEPLOYMENT_OUTCOME_OVERTAKEN
	}
	return consolev1.DeploymentOutcome_DEPLOYMENT_OUTCOME_RUNNING
}
