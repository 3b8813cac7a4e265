package rpc

import (
	"context"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/store"
)

type projects struct{ Deps }

func (s *projects) GetProject(ctx context.Context, req *consolev1.GetProjectRequest) (*consolev1.GetProjectResponse, error) {
	out, err := serve(s.Deps, projectKind()).Get(ctx, req)
	return &consolev1.GetProjectResponse{Project: out}, err
}

func (s *projects) ListProjects(ctx context.Context, req *consolev1.ListProjectsRequest) (*consolev1.ListProjectsResponse, error) {
	out, next, err := serve(s.Deps, projectKind()).List(ctx, req)
	return &consolev1.ListProjectsResponse{Projects: out, NextPageToken: next}, err
}

func (s *projects) UpdateProject(ctx context.Context, req *consolev1.UpdateProjectRequest) (*consolev1.UpdateProjectResponse, error) {
	out, outcome, err := serve(s.Deps, projectKind()).Update(ctx, req.GetProject(), req)
	return &consolev1.UpdateProjectResponse{Project: out, Outcome: outcome}, err
}

func (s *projects) DeleteProject(ctx context.Context, req *consolev1.DeleteProjectRequest) (*consolev1.DeleteProjectResponse, error) {
	return &consolev1.DeleteProjectResponse{}, serve(s.Deps, projectKind()).Delete(ctx, req)
}

// showProjects encodes projects with their statuses.
func showProjects(ctx context.Context, c *catalog.Catalog, list []catalog.Project) ([]*consolev1.Project, error) {
	names := descriptor.Each(list, func(p catalog.Project) string { return p.Meta.Name })
	services, err := c.CountServices(ctx, store.KindProject, names)
	return descriptor.Each(list, func(p catalog.Project) *consolev1.Project {
		out := encodeProject(p)
		out.Status = &consolev1.ProjectStatus{Services: int32(services[p.Meta.Name])}
		return out
	}), err
}

func decodeProject(p *consolev1.Project) (out catalog.Project, err error) {
	spec := p.GetSpec()
	out.Meta = descriptor.Meta(p.GetMetadata())
	out.Spec = catalog.ProjectSpec{
		Description: spec.GetDescription(), Sources: spec.GetSources(), Config: decodeSettings(spec.GetConfig()),
		Namespaces: spec.GetNamespaces(), Kinds: spec.GetKinds(), DeniedKinds: spec.GetDeniedKinds(), Accounts: spec.GetAccounts(), Windows: spec.GetWindows(),
		Recording: int32(spec.GetRecording()),
	}
	out.Spec.Clusters, err = descriptor.Selector("spec.clusters", spec.GetClusters())
	return out, err
}

func encodeProject(p catalog.Project) *consolev1.Project {
	return &consolev1.Project{Metadata: descriptor.Metadata(p.Meta), Freeze: p.Spec.Freeze.Encode(), Spec: &consolev1.ProjectSpec{
		Description: p.Spec.Description, Sources: p.Spec.Sources, Clusters: descriptor.ClusterSelector(p.Spec.Clusters), Config: encodeSettings(p.Spec.Config),
		Namespaces: p.Spec.Namespaces, Kinds: p.Spec.Kinds, DeniedKinds: p.Spec.DeniedKinds, Accounts: p.Spec.Accounts, Windows: p.Spec.Windows,
		Recording: consolev1.RecordingMode(p.Spec.Recording),
	}}
}
