package rpc

import (
	"context"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
)

const (
	// maxHeldBack and maxPlanned bound what an answer lists.
	maxHeldBack = 100
	maxPlanned  = 1000
)

type globals struct{ Deps }

func (s *globals) GetGlobalService(ctx context.Context, req *consolev1.GetGlobalServiceRequest) (*consolev1.GetGlobalServiceResponse, error) {
	out, err := serve(s.Deps, globalKind()).Get(ctx, req)
	return &consolev1.GetGlobalServiceResponse{GlobalService: out}, err
}

func (s *globals) ListGlobalServices(ctx context.Context, req *consolev1.ListGlobalServicesRequest) (*consolev1.ListGlobalServicesResponse, error) {
	out, next, err := serve(s.Deps, globalKind()).List(ctx, req)
	return &consolev1.ListGlobalServicesResponse{GlobalServices: out, NextPageToken: next}, err
}

func (s *globals) UpdateGlobalService(ctx context.Context, req *consolev1.UpdateGlobalServiceRequest) (*consolev1.UpdateGlobalServiceResponse, error) {
	in, err := decodeGlobal(req.GetGlobalService())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	_, outcome, err := catalog.Put(ctx, s.Catalog, call.By(ctx), resource.GlobalServices(), in, expectation(in.Meta, req))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out, err := serve(s.Deps, globalKind()).Get(ctx, req.GetGlobalService().GetMetadata())
	if err != nil {
		return nil, err
	}
	return &consolev1.UpdateGlobalServiceResponse{GlobalService: out, Outcome: descriptor.Outcome(outcome)}, nil
}

func (s *globals) DeleteGlobalService(ctx context.Context, req *consolev1.DeleteGlobalServiceRequest) (*consolev1.DeleteGlobalServiceResponse, error) {
	if err := s.Catalog.DeleteGlobal(ctx, call.By(ctx), req.GetName(), req.GetEtag(), req.GetConfirmation()); err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.DeleteGlobalServiceResponse{}, nil
}

func (s *globals) PreviewGlobalService(ctx context.Context, req *consolev1.PreviewGlobalServiceRequest) (*consolev1.PreviewGlobalServiceResponse, error) {
	in, err := decodeGlobal(req.GetGlobalService())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	p, err := s.Catalog.PreviewGlobal(ctx, call.By(ctx), in)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out := &consolev1.PreviewGlobalServiceResponse{HeldBack: p.HeldBack, Confirmation: p.Confirmation}
	for _, planned := range p.Services {
		switch planned.Action {
		case catalog.PlanCreate:
			out.Created++
		case catalog.PlanUpdate:
			out.Updated++
		case catalog.PlanDelete:
			out.Deleted++
		case catalog.PlanDetach:
			out.Detached++
		case catalog.PlanKeep:
			out.Unchanged++
		}
		if len(out.GetServices()) == maxPlanned {
			continue
		}
		shown, err := s.planned(planned)
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		out.Services = append(out.Services, shown)
	}
	return out, nil
}

func (s *globals) planned(p catalog.Planned) (*consolev1.PlannedService, error) {
	out := &consolev1.PlannedService{Name: p.Name, Cluster: p.Cluster, Problem: p.Problem}
	switch p.Action {
	case catalog.PlanCreate:
		out.Action = consolev1.PlannedAction_PLANNED_ACTION_CREATE
	case catalog.PlanUpdate:
		out.Action = consolev1.PlannedAction_PLANNED_ACTION_UPDATE
	case catalog.PlanDelete:
		out.Action = consolev1.PlannedAction_PLANNED_ACTION_DELETE
	case catalog.PlanDetach:
		out.Action = consolev1.PlannedAction_PLANNED_ACTION_DETACH
	case catalog.PlanKeep:
		out.Action = consolev1.PlannedAction_PLANNED_ACTION_KEEP
		return out, nil
	}
	var err error
	out.Diff, err = s.diff(p.Name, p.Before, p.After)
	return out, err
}

func (s *globals) ConfirmGlobalService(ctx context.Context, req *consolev1.ConfirmGlobalServiceRequest) (*consolev1.ConfirmGlobalServiceResponse, error) {
	if err := s.Catalog.ConfirmGlobal(ctx, call.By(ctx), req.GetName(), req.GetConfirmation()); err != nil {
		return nil, s.fail(ctx, err)
	}
	out, err := serve(s.Deps, globalKind()).Get(ctx, req)
	if err != nil {
		return nil, err
	}
	return &consolev1.ConfirmGlobalServiceResponse{GlobalService: out}, nil
}

// showGlobals encodes global services with their statuses.
func showGlobals(ctx context.Context, c *catalog.Catalog, list []resource.GlobalService) ([]*consolev1.GlobalService, error) {
	statuses, err := c.GlobalStatuses(ctx, list)
	if err != nil {
		return nil, err
	}
	out := descriptor.Each(list, encodeGlobal)
	for i, status := range statuses {
		out[i].Status = &consolev1.GlobalServiceStatus{
			Clusters: int32(status.Clusters), Healthy: int32(status.Healthy),
			HeldBack: status.HeldBack[:min(len(status.HeldBack), maxHeldBack)], HeldBackTotal: int32(len(status.HeldBack)),
			HeldBackSince: descriptor.Stamp(status.HeldBackSince),
		}
	}
	return out, nil
}

func decodeGlobal(g *consolev1.GlobalService) (out resource.GlobalService, err error) {
	spec := g.GetSpec()
	out.Meta = descriptor.Meta(g.GetMetadata())
	out.Spec = resource.GlobalSpec{
		Template: decodeServiceSpec(spec.GetTemplate()), MaxDeletions: int(spec.GetMaxDeletions()),
		Detach: spec.GetOnLeave() == consolev1.OnLeave_ON_LEAVE_DETACH,
	}
	if out.Spec.Clusters, err = descriptor.Selector("spec.clusters", spec.GetClusters()); err != nil {
		return out, err
	}
	for _, o := range spec.GetOverrides() {
		clusters, err := descriptor.Selector("spec.overrides.clusters", o.GetClusters())
		if err != nil {
			return out, err
		}
		out.Spec.Overrides = append(out.Spec.Overrides, resource.GlobalOverride{
			Clusters: clusters, Ref: o.GetRef(), Path: o.GetPath(), Namespace: o.GetNamespace(),
			ConfigSets: o.GetConfigSets(), Config: descriptor.Settings(o.GetConfig()),
		})
	}
	return out, nil
}

func encodeGlobal(g resource.GlobalService) *consolev1.GlobalService {
	spec := &consolev1.GlobalServiceSpec{
		Clusters: descriptor.ClusterSelector(g.Spec.Clusters), Template: encodeServiceSpec(g.Spec.Template), MaxDeletions: int32(g.Spec.MaxDeletions),
	}
	if g.Spec.Detach {
		spec.OnLeave = consolev1.OnLeave_ON_LEAVE_DETACH
	}
	for _, o := range g.Spec.Overrides {
		spec.Overrides = append(spec.Overrides, &consolev1.GlobalOverride{
			Clusters: descriptor.ClusterSelector(o.Clusters), Ref: o.Ref, Path: o.Path, Namespace: o.Namespace, ConfigSets: o.ConfigSets, Config: descriptor.ConfigSettings(o.Config),
		})
	}
	return &consolev1.GlobalService{Metadata: descriptor.Metadata(g.Meta), Spec: spec}
}
