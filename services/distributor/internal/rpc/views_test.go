package rpc_test

import (
	"context"
	"errors"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/distributor/internal/rpc"
	"fairlead.dev/services/distributor/internal/status"
)

// refusing is a console that answers views with an error.
type refusing struct{ code connect.Code }

func (c refusing) RecordViews(context.Context, *consolev1.RecordViewsRequest) (*consolev1.RecordViewsResponse, error) {
	return nil, connect.NewError(c.code, errors.New("no"))
}

// In an upgrade a console may be older than the distributor, for minutes: an agent that is told Unimplemented does not
// push for an hour.
func TestAgentsComeBackSoonWhenTheConsoleTakesNoViewsYet(t *testing.T) {
	t.Parallel()
	for says, want := range map[connect.Code]connect.Code{
		connect.CodeUnimplemented: connect.CodeUnavailable, connect.CodeInternal: connect.CodeUnavailable,
		connect.CodeInvalidArgument: connect.CodeInvalidArgument,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		v := status.NewViews(refusing{says})
		ended := make(chan error, 1)
		go func() { ended <- v.Run(ctx) }()
		_, err := rpc.NewViews(v, func() {}).PushView(asAgent(t.Context()),
			&deliveryv1.PushViewRequest{Term: 1, Sequence: 1})
		if got := connect.CodeOf(err); got != want {
			t.Errorf("the console says %v: the agent is told %v, want %v", says, got, want)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
