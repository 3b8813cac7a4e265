package backend

import (
	"context"
	"net/http"
	"slices"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/config"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
)

// Deps is what the API of the kind works with.
type Deps struct {
	descriptor.Door
	Config *config.Resolver
	// Open connects to backends that are only tried.
	Open     config.Opener
	Accesses *audit.Accesses
}

// Mount serves the API of the kind.
func Mount(d Deps) server.Mount {
	return server.RPC(consolev1connect.BackendServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
		return consolev1connect.NewBackendServiceHandler(&service{
			Service: descriptor.Service[resource.Backend, *consolev1.Backend]{Of: Kind(), Door: d.Door}, deps: d,
		}, o...)
	})
}

func policy() identity.Policy {
	return identity.Policy{
		// Grants decide, within reading and writing.
		consolev1connect.BackendServiceGetBackendProcedure:    identity.RoleUser,
		consolev1connect.BackendServiceListBackendsProcedure:  identity.RoleUser,
		consolev1connect.BackendServiceUpdateBackendProcedure: identity.RoleUser,
		consolev1connect.BackendServiceDeleteBackendProcedure: identity.RoleUser,
		consolev1connect.BackendServiceCheckBackendProcedure:  identity.RoleAdmin, // a check reads with whatever Secret
	}
}

type service struct {
	descriptor.Service[resource.Backend, *consolev1.Backend]
	deps Deps
}

func (s *service) GetBackend(ctx context.Context, req *consolev1.GetBackendRequest) (*consolev1.GetBackendResponse, error) {
	out, err := s.Get(ctx, req)
	return &consolev1.GetBackendResponse{Backend: out}, err
}

func (s *service) ListBackends(ctx context.Context, req *consolev1.ListBackendsRequest) (*consolev1.ListBackendsResponse, error) {
	out, next, err := s.List(ctx, req)
	return &consolev1.ListBackendsResponse{Backends: out, NextPageToken: next}, err
}

func (s *service) UpdateBackend(ctx context.Context, req *consolev1.UpdateBackendRequest) (*consolev1.UpdateBackendResponse, error) {
	out, outcome, err := s.Update(ctx, req.GetBackend(), req)
	return &consolev1.UpdateBackendResponse{Backend: out, Outcome: outcome}, err
}

func (s *service) DeleteBackend(ctx context.Context, req *consolev1.DeleteBackendRequest) (*consolev1.DeleteBackendResponse, error) {
	return &consolev1.DeleteBackendResponse{}, s.Delete(ctx, req)
}

func (s *service) CheckBackend(ctx context.Context, req *consolev1.CheckBackendRequest) (*consolev1.CheckBackendResponse, error) {
	in, err := s.Decode(req.GetBackend())
	if err == nil {
		_, err = catalog.Draft(resource.Backends(), in, catalog.Expectation{AllowMissing: true})
	}
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	s.deps.Accesses.Tell(call.Who(ctx), audit.Act{Action: "backend.check", Resource: "backend", Name: in.Meta.Name, Reason: "path " + req.GetPath()})
	keys, problem, err := s.deps.Config.Check(ctx, s.deps.Open, in.Spec, req.GetPath())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	slices.Sort(keys)
	out := &consolev1.CheckBackendResponse{Keys: keys}
	if problem != nil {
		out.Problem = problem.Error()
	}
	return out, nil
}
