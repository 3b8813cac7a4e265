package follow

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	platform "fairlead.dev/platform/viewset"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/kinds/viewset"
)

type views struct{ Deps }

func (s *views) GetClusterView(ctx context.Context, req *consolev1.GetClusterViewRequest) (*consolev1.GetClusterViewResponse, error) {
	view, err := s.Views.Get(ctx, req.GetCluster())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.GetClusterViewResponse{View: view}, nil
}

func (s *views) ListClusterViews(ctx context.Context, req *consolev1.ListClusterViewsRequest) (*consolev1.ListClusterViewsResponse, error) {
	out, err := s.Views.List(ctx, req)
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return out, nil
}

func (s *views) ListViewRows(ctx context.Context, req *consolev1.ListViewRowsRequest) (*consolev1.ListViewRowsResponse, error) {
	set, err := s.setOf(ctx, req.GetSection())
	if err != nil {
		return nil, err
	}
	out, err := s.Views.Rows(ctx, req, set)
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return out, nil
}

// setOf returns the ViewSet of a section; nil: it is of none, or of one that the caller does not see.
func (s *views) setOf(ctx context.Context, section string) (*consolev1.ViewSet, error) {
	name, ok := platform.NameOf(section)
	if !ok {
		return nil, nil //nolint:nilnil // sections of every view have none
	}
	sets := descriptor.Service[viewset.ViewSet, *consolev1.ViewSet]{Of: viewset.Kind(), Door: s.Door}
	set, err := sets.Get(ctx, &consolev1.GetViewSetRequest{Name: name})
	if connect.CodeOf(err) == connect.CodeNotFound {
		return nil, nil //nolint:nilnil // the rows say what the caller sees
	}
	return set, err
}

func (s *views) GetViewCurves(ctx context.Context, req *consolev1.GetViewCurvesRequest) (*consolev1.GetViewCurvesResponse, error) {
	out, err := s.Views.Curves(ctx, req)
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return out, nil
}

func (s *views) WatchClusterViews(ctx context.Context, req *consolev1.WatchClusterViewsRequest, stream *connect.ServerStream[consolev1.WatchClusterViewsResponse]) error {
	leave, err := s.look(ctx)
	if err != nil {
		return err
	}
	defer leave()
	err = s.Views.Watch(ctx, req.GetFilter(), func(m *consolev1.WatchClusterViewsResponse) error {
		return call.Bounded(ctx, call.SendTimeout, func() error { return stream.Send(m) })
	})
	if errors.Is(ctx.Err(), context.Canceled) {
		// The caller went, or the console drains: either way there is nothing to find in a log.
		return connect.NewError(connect.CodeUnavailable, feed.ErrStopped)
	}
	return s.Fail(ctx, err)
}
