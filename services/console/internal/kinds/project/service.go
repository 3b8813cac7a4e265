package project

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
)

func mount(door descriptor.Door) server.Mount {
	return server.RPC(consolev1connect.ProjectServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
		return consolev1connect.NewProjectServiceHandler(&service{
			descriptor.Service[resource.Project, *consolev1.Project]{Of: described(), Door: door},
		}, o...)
	})
}

func policy() identity.Policy {
	const read = identity.RoleUser | identity.RoleHub
	return identity.Policy{
		consolev1connect.ProjectServiceGetProjectProcedure:    read,
		consolev1connect.ProjectServiceListProjectsProcedure:  read,
		consolev1connect.ProjectServiceUpdateProjectProcedure: identity.RoleAdmin,
		consolev1connect.ProjectServiceDeleteProjectProcedure: identity.RoleAdmin,
	}
}

type service struct {
	descriptor.Service[resource.Project, *consolev1.Project]
}

func (s *service) GetProject(ctx context.Context, req *consolev1.GetProjectRequest) (*consolev1.GetProjectResponse, error) {
	out, err := s.Get(ctx, req)
	return &consolev1.GetProjectResponse{Project: out}, err
}

func (s *service) ListProjects(ctx context.Context, req *consolev1.ListProjectsRequest) (*consolev1.ListProjectsResponse, error) {
	out, next, err := s.List(ctx, req)
	return &consolev1.ListProjectsResponse{Projects: out, NextPageToken: next}, err
}

func (s *service) UpdateProject(ctx context.Context, req *consolev1.UpdateProjectRequest) (*consolev1.UpdateProjectResponse, error) {
	out, outcome, err := s.Update(ctx, req.GetProject(), req)
	return &consolev1.UpdateProjectResponse{Project: out, Outcome: outcome}, err
}

func (s *service) DeleteProject(ctx context.Context, req *consolev1.DeleteProjectRequest) (*consolev1.DeleteProjectResponse, error) {
	return &consolev1.DeleteProjectResponse{}, s.Delete(ctx, req)
}
