package viewset

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/views"
)

// Deps is what the API of the kind works with.
type Deps struct {
	descriptor.Door
	// Views are those that the statuses of sets are made of.
	Views *views.Board
}

// Mount serves the API of the kind.
func Mount(d Deps) server.Mount {
	return server.RPC(consolev1connect.ViewSetServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
		return consolev1connect.NewViewSetServiceHandler(&service{
			Service: descriptor.Service[ViewSet, *consolev1.ViewSet]{Of: Kind(), Door: d.Door}, deps: d,
		}, o...)
	})
}

func policy() identity.Policy {
	return identity.Policy{
		// Grants decide, within reading and writing.
		consolev1connect.ViewSetServiceGetViewSetProcedure:    identity.RoleUser,
		consolev1connect.ViewSetServiceListViewSetsProcedure:  identity.RoleUser,
		consolev1connect.ViewSetServiceUpdateViewSetProcedure: identity.RoleUser,
		consolev1connect.ViewSetServiceDeleteViewSetProcedure: identity.RoleUser,
	}
}

type service struct {
	descriptor.Service[ViewSet, *consolev1.ViewSet]
	deps Deps
}

func (s *service) GetViewSet(ctx context.Context, req *consolev1.GetViewSetRequest) (*consolev1.GetViewSetResponse, error) {
	out, err := s.Get(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := s.showStatuses(ctx, []*consolev1.ViewSet{out}); err != nil {
		return nil, err
	}
	return &consolev1.GetViewSetResponse{ViewSet: out}, nil
}

func (s *service) ListViewSets(ctx context.Context, req *consolev1.ListViewSetsRequest) (*consolev1.ListViewSetsResponse, error) {
	out, next, err := s.List(ctx, req)
	if err != nil {
		return nil, err
	}
	if len(req.GetReadMask().GetPaths()) == 0 { // a mask is about what is written
		if err := s.showStatuses(ctx, out); err != nil {
			return nil, err
		}
	}
	return &consolev1.ListViewSetsResponse{ViewSets: out, NextPageToken: next}, nil
}

func (s *service) UpdateViewSet(ctx context.Context, req *consolev1.UpdateViewSetRequest) (*consolev1.UpdateViewSetResponse, error) {
	out, outcome, err := s.Update(ctx, req.GetViewSet(), req)
	return &consolev1.UpdateViewSetResponse{ViewSet: out, Outcome: outcome}, err
}

func (s *service) DeleteViewSet(ctx context.Context, req *consolev1.DeleteViewSetRequest) (*consolev1.DeleteViewSetResponse, error) {
	return &consolev1.DeleteViewSetResponse{}, s.Delete(ctx, req)
}

// showStatuses says of sets how far the views of the caller's clusters have them.
func (s *service) showStatuses(ctx context.Context, sets []*consolev1.ViewSet) error {
	if err := s.deps.Views.SetStatuses(ctx, sets); err != nil {
		return s.Fail(ctx, err)
	}
	return nil
}
