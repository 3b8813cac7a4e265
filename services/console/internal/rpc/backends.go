package rpc

import (
	"context"
	"slices"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/kinds/backend"
)

type backends struct{ Deps }

func (s *backends) GetBackend(ctx context.Context, req *consolev1.GetBackendRequest) (*consolev1.GetBackendResponse, error) {
	out, err := serve(s.Deps, backend.Kind()).Get(ctx, req)
	return &consolev1.GetBackendResponse{Backend: out}, err
}

func (s *backends) ListBackends(ctx context.Context, req *consolev1.ListBackendsRequest) (*consolev1.ListBackendsResponse, error) {
	out, next, err := serve(s.Deps, backend.Kind()).List(ctx, req)
	return &consolev1.ListBackendsResponse{Backends: out, NextPageToken: next}, err
}

func (s *backends) UpdateBackend(ctx context.Context, req *consolev1.UpdateBackendRequest) (*consolev1.UpdateBackendResponse, error) {
	out, outcome, err := serve(s.Deps, backend.Kind()).Update(ctx, req.GetBackend(), req)
	return &consolev1.UpdateBackendResponse{Backend: out, Outcome: outcome}, err
}

func (s *backends) DeleteBackend(ctx context.Context, req *consolev1.DeleteBackendRequest) (*consolev1.DeleteBackendResponse, error) {
	return &consolev1.DeleteBackendResponse{}, serve(s.Deps, backend.Kind()).Delete(ctx, req)
}

func (s *backends) CheckBackend(ctx context.Context, req *consolev1.CheckBackendRequest) (*consolev1.CheckBackendResponse, error) {
	in, err := backend.Kind().Decode(req.GetBackend())
	if err == nil {
		_, err = catalog.Backends().Draft(in, catalog.Expectation{AllowMissing: true})
	}
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	s.Accesses.Tell(call.Who(ctx), audit.Act{Action: "backend.check", Resource: "backend", Name: in.Meta.Name, Reason: "path " + req.GetPath()})
	keys, problem, err := s.Config.Check(ctx, s.OpenBackend, in.Spec, req.GetPath())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	slices.Sort(keys)
	out := &consolev1.CheckBackendResponse{Keys: keys}
	if problem != nil {
		out.Problem = problem.Error()
	}
	return out, nil
}
