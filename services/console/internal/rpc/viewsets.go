package rpc

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/kinds/viewset"
)

func viewSetMounts(d Deps) []server.Mount {
	return []server.Mount{
		server.RPC(consolev1connect.ViewSetServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewViewSetServiceHandler(&viewSets{d}, o...)
		}),
	}
}

func viewSetPolicy() identity.Policy {
	return identity.Policy{
		// Grants decide, within reading and writing.
		consolev1connect.ViewSetServiceGetViewSetProcedure:    identity.RoleUser,
		consolev1connect.ViewSetServiceListViewSetsProcedure:  identity.RoleUser,
		consolev1connect.ViewSetServiceUpdateViewSetProcedure: identity.RoleUser,
		consolev1connect.ViewSetServiceDeleteViewSetProcedure: identity.RoleUser,
	}
}

type viewSets struct{ Deps }

func (s *viewSets) GetViewSet(ctx context.Context, req *consolev1.GetViewSetRequest) (*consolev1.GetViewSetResponse, error) {
	out, err := serve(s.Deps, viewset.Kind()).Get(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := s.show(ctx, []*consolev1.ViewSet{out}); err != nil {
		return nil, err
	}
	return &consolev1.GetViewSetResponse{ViewSet: out}, nil
}

func (s *viewSets) ListViewSets(ctx context.Context, req *consolev1.ListViewSetsRequest) (*consolev1.ListViewSetsResponse, error) {
	out, next, err := serve(s.Deps, viewset.Kind()).List(ctx, req)
	if err != nil {
		return nil, err
	}
	if len(req.GetReadMask().GetPaths()) == 0 { // a mask is about what is written
		if err := s.show(ctx, out); err != nil {
			return nil, err
		}
	}
	return &consolev1.ListViewSetsResponse{ViewSets: out, NextPageToken: next}, nil
}

func (s *viewSets) UpdateViewSet(ctx context.Context, req *consolev1.UpdateViewSetRequest) (*consolev1.UpdateViewSetResponse, error) {
	out, outcome, err := serve(s.Deps, viewset.Kind()).Update(ctx, req.GetViewSet(), req)
	return &consolev1.UpdateViewSetResponse{ViewSet: out, Outcome: outcome}, err
}

func (s *viewSets) DeleteViewSet(ctx context.Context, req *consolev1.DeleteViewSetRequest) (*consolev1.DeleteViewSetResponse, error) {
	return &consolev1.DeleteViewSetResponse{}, serve(s.Deps, viewset.Kind()).Delete(ctx, req)
}

// show says of sets how far the views of the caller's clusters have them.
func (s *viewSets) show(ctx context.Context, sets []*consolev1.ViewSet) error {
	if err := s.Views.SetStatuses(ctx, sets); err != nil {
		return s.fail(ctx, err)
	}
	return nil
}
