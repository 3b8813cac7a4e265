package rpc

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/distributor/internal/status"
)

// Views implements ViewService.
type Views struct {
	views *status.Views
	away  func()
}

// NewViews returns the handler. away counts the calls that are turned away.
func NewViews(v *status.Views, away func()) *Views { return &Views{views: v, away: away} }

// PushView implements ViewService.
func (v *Views) PushView(ctx context.Context, req *deliveryv1.PushViewRequest) (*deliveryv1.PushViewResponse, error) {
	cluster, ok := identity.Cluster(ctx)
	if !ok {
		return nil, errNoAgent
	}
	answer, err := v.views.Record(ctx, cluster, req)
	switch code := connect.CodeOf(err); {
	case err == nil:
		return answer, nil
	case errors.Is(err, status.ErrBusy):
		v.away()
		return nil, errTooMany(v.views.Pause())
	case errors.Is(err, context.Canceled), code == connect.CodeInvalidArgument:
		return nil, err
	}
	// A console that is older than the distributor is replaced within minutes: Unimplemented would send agents away for
	// an hour.
	return nil, connect.NewError(connect.CodeUnavailable, errors.New("the view is not kept yet: the console does not take it right now. Push again later"))
}
