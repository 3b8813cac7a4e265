package grant

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
	return server.RPC(consolev1connect.GrantServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
		return consolev1connect.NewGrantServiceHandler(&service{descriptor.Service[resource.Grant, *consolev1.Grant]{Of: described(), Door: door}}, o...)
	})
}

func policy() identity.Policy {
	const read = identity.RoleUser | identity.RoleHub
	return identity.Policy{
		consolev1connect.GrantServiceGetGrantProcedure:    read,
		consolev1connect.GrantServiceListGrantsProcedure:  read,
		consolev1connect.GrantServiceUpdateGrantProcedure: identity.RoleAdmin,
		consolev1connect.GrantServiceDeleteGrantProcedure: identity.RoleAdmin,
	}
}

type service struct {
	descriptor.Service[resource.Grant, *consolev1.Grant]
}

func (s *service) GetGrant(ctx context.Context, req *consolev1.GetGrantRequest) (*consolev1.GetGrantResponse, error) {
	out, err := s.Get(ctx, req)
	return &consolev1.GetGrantResponse{Grant: out}, err
}

func (s *service) ListGrants(ctx context.Context, req *consolev1.ListGrantsRequest) (*consolev1.ListGrantsResponse, error) {
	out, next, err := s.List(ctx, req)
	return &consolev1.ListGrantsResponse{Grants: out, NextPageToken: next}, err
}

func (s *service) UpdateGrant(ctx context.Context, req *consolev1.UpdateGrantRequest) (*consolev1.UpdateGrantResponse, error) {
	out, outcome, err := s.Update(ctx, req.GetGrant(), req)
	return &consolev1.UpdateGrantResponse{Grant: out, Outcome: outcome}, err
}

func (s *service) DeleteGrant(ctx context.Context, req *consolev1.DeleteGrantRequest) (*consolev1.DeleteGrantResponse, error) {
	return &consolev1.DeleteGrantResponse{}, s.Delete(ctx, req)
}
