package serviceaccount

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

// Deps is what the API of the kind works with.
type Deps struct {
	descriptor.Door
	// Reload puts a revocation that is durable in force here.
	Reload func(context.Context)
}

// Mount serves the API of the kind.
func Mount(d Deps) server.Mount {
	return server.RPC(consolev1connect.ServiceAccountServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
		return consolev1connect.NewServiceAccountServiceHandler(&service{
			Service: descriptor.Service[resource.ServiceAccount, *consolev1.ServiceAccount]{Of: Kind(), Door: d.Door},
			reload:  d.Reload,
		}, o...)
	})
}

func policy() identity.Policy {
	const read = identity.RoleUser | identity.RoleHub
	return identity.Policy{
		consolev1connect.ServiceAccountServiceGetServiceAccountProcedure:    read,
		consolev1connect.ServiceAccountServiceListServiceAccountsProcedure:  read,
		consolev1connect.ServiceAccountServiceUpdateServiceAccountProcedure: identity.RoleAdmin,
		consolev1connect.ServiceAccountServiceDeleteServiceAccountProcedure: identity.RoleAdmin,
	}
}

type service struct {
	descriptor.Service[resource.ServiceAccount, *consolev1.ServiceAccount]
	reload func(context.Context)
}

func (s *service) GetServiceAccount(ctx context.Context, req *consolev1.GetServiceAccountRequest) (*consolev1.GetServiceAccountResponse, error) {
	out, err := s.Get(ctx, req)
	return &consolev1.GetServiceAccountResponse{ServiceAccount: out}, err
}

func (s *service) ListServiceAccounts(ctx context.Context, req *consolev1.ListServiceAccountsRequest) (*consolev1.ListServiceAccountsResponse, error) {
	out, next, err := s.List(ctx, req)
	return &consolev1.ListServiceAccountsResponse{ServiceAccounts: out, NextPageToken: next}, err
}

func (s *service) UpdateServiceAccount(ctx context.Context, req *consolev1.UpdateServiceAccountRequest) (*consolev1.UpdateServiceAccountResponse, error) {
	out, outcome, err := s.Update(ctx, req.GetServiceAccount(), req)
	if err != nil {
		return nil, err
	}
	s.reload(ctx)
	return &consolev1.UpdateServiceAccountResponse{ServiceAccount: out, Outcome: outcome}, nil
}

func (s *service) DeleteServiceAccount(ctx context.Context, req *consolev1.DeleteServiceAccountRequest) (*consolev1.DeleteServiceAccountResponse, error) {
	if err := s.Delete(ctx, req); err != nil {
		return nil, err
	}
	s.reload(ctx)
	return &consolev1.DeleteServiceAccountResponse{}, nil
}
