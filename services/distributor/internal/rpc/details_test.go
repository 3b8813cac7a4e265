package rpc_test

import (
	"context"
	"errors"
	"testing"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/services/distributor/internal/rpc"
)

// keeper answers as the test says.
type keeper func(*consolev1.RecordDetailsRequest) error

func (k keeper) RecordDetails(_ context.Context, req *consolev1.RecordDetailsRequest) (*consolev1.RecordDetailsResponse, error) {
	return &consolev1.RecordDetailsResponse{}, k(req)
}

func TestDetailsAreAcknowledgedOnceDurable(t *testing.T) {
	t.Parallel()
	agent := identity.NewContext(t.Context(), identity.Identity{Kind: identity.KindAgent, Name: "edge-1"})
	req := &deliveryv1.ReportDetailsRequest{Detail: &deliveryv1.ServiceDetail{Service: "web"}}
	for name, c := range map[string]struct {
		ctx    context.Context
		answer error
		want   connect.Code
	}{
		"kept":               {agent, nil, 0},
		"no agent":           {t.Context(), nil, connect.CodePermissionDenied},
		"away":               {agent, connect.NewError(connect.CodeUnavailable, errors.New("x")), connect.CodeUnavailable},
		"broken":             {agent, connect.NewError(connect.CodeInternal, errors.New("x")), connect.CodeUnavailable},
		"bad":                {agent, connect.NewError(connect.CodeInvalidArgument, errors.New("x")), connect.CodeInvalidArgument},
		"more than it keeps": {agent, connect.NewError(connect.CodeResourceExhausted, errors.New("x")), connect.CodeResourceExhausted},
	} {
		d := rpc.NewDetails(keeper(func(got *consolev1.RecordDetailsRequest) error {
			if got.GetCluster() != "edge-1" || got.GetDetail().GetService() != "web" {
				t.Errorf("%s: told %v", name, got)
			}
			return c.answer
		}), func() {})
		_, err := d.ReportDetails(c.ctx, req)
		if c.want == 0 && err != nil || c.want != 0 && connect.CodeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
