package rpc

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/catalog"
)

// syncMounts are the levers of services, and what agents hand over about their objects.
func syncMounts(d Deps) []server.Mount {
	return []server.Mount{
		server.RPC(consolev1connect.SyncServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewSyncServiceHandler(&levers{d}, o...)
		}),
		server.RPC(consolev1connect.ObjectServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewObjectServiceHandler(&objects{d}, o...)
		}),
		server.RPC(consolev1connect.TestServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewTestServiceHandler(&tests{d}, o...)
		}),
		server.RPC(consolev1connect.RevisionServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewRevisionServiceHandler(&histories{d}, o...)
		}),
	}
}

func syncPolicy() identity.Policy {
	const judged = identity.RoleUser // grants decide, within the write
	return identity.Policy{
		consolev1connect.SyncServiceHoldServiceProcedure:   judged,
		consolev1connect.SyncServiceResumeServiceProcedure: judged,
		consolev1connect.SyncServicePinServiceProcedure:    judged,
		consolev1connect.SyncServiceRequestSyncProcedure:   judged,
		consolev1connect.SyncServiceConfirmPruneProcedure:  judged,

		consolev1connect.TestServiceRunTestsProcedure:     judged,
		consolev1connect.TestServiceListTestRunsProcedure: identity.RoleUser | identity.RoleHub,
		consolev1connect.TestServiceGetTestRunProcedure:   identity.RoleUser | identity.RoleHub,

		consolev1connect.RevisionServiceListRevisionsProcedure:    judged,
		consolev1connect.RevisionServiceListDeploymentsProcedure:  judged,
		consolev1connect.RevisionServiceRollbackServiceProcedure:  judged,
		consolev1connect.RevisionServiceUndeleteResourceProcedure: judged,

		consolev1connect.ObjectServiceListObjectsProcedure:     identity.RoleUser | identity.RoleHub,
		consolev1connect.ObjectServiceGetServiceDiffProcedure:  identity.RoleUser | identity.RoleHub,
		consolev1connect.ObjectServiceGetServiceNotesProcedure: identity.RoleUser | identity.RoleHub,
		consolev1connect.ObjectServiceRecordDetailsProcedure:   identity.RoleDistributor,
	}
}

type levers struct{ Deps }

func (s *levers) HoldService(ctx context.Context, req *consolev1.HoldServiceRequest) (*consolev1.HoldServiceResponse, error) {
	mode := req.GetMode()
	if mode == deliveryv1.SyncMode_SYNC_MODE_UNSPECIFIED {
		mode = deliveryv1.SyncMode_SYNC_MODE_HOLD
	}
	out, err := s.Catalog.Hold(ctx, by(ctx), req.GetName(), mode.String(), req.GetReason(), moment(req.GetUntilTime()))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.HoldServiceResponse{Service: encodeService(out)}, nil
}

func (s *levers) ResumeService(ctx context.Context, req *consolev1.ResumeServiceRequest) (*consolev1.ResumeServiceResponse, error) {
	out, err := s.Catalog.Resume(ctx, by(ctx), req.GetName())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.ResumeServiceResponse{Service: encodeService(out)}, nil
}

func (s *levers) PinService(ctx context.Context, req *consolev1.PinServiceRequest) (*consolev1.PinServiceResponse, error) {
	out, err := s.Catalog.Pin(ctx, by(ctx), req.GetName(), req.GetCommit(), req.GetReason(), req.GetUntilNext(), moment(req.GetUntilTime()))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.PinServiceResponse{Service: encodeService(out)}, nil
}

func (s *levers) RequestSync(ctx context.Context, req *consolev1.RequestSyncRequest) (*consolev1.RequestSyncResponse, error) {
	out, err := s.Catalog.RequestSync(ctx, by(ctx), req.GetName())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.RequestSyncResponse{Service: encodeService(out)}, nil
}

func (s *levers) ConfirmPrune(ctx context.Context, req *consolev1.ConfirmPruneRequest) (*consolev1.ConfirmPruneResponse, error) {
	out, err := s.Catalog.ConfirmPrune(ctx, by(ctx), req.GetName(), req.GetGuard())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.ConfirmPruneResponse{Service: encodeService(out)}, nil
}

// encodeLevers is nil where there are none.
func encodeLevers(l *catalog.Levers) *consolev1.ServiceLevers {
	if l == nil || l.Mode == nil && l.Pin == nil && l.Files == nil {
		return nil
	}
	out := &consolev1.ServiceLevers{Mode: encodeLever(l.Mode), Pin: encodeLever(l.Pin)}
	if l.Files != nil {
		out.Spec = encodeServiceSpec(*l.Files)
	}
	return out
}

func encodeLever(l *catalog.Lever) *consolev1.Lever {
	if l == nil {
		return nil
	}
	return &consolev1.Lever{
		Mode: deliveryv1.SyncMode(deliveryv1.SyncMode_value[l.Mode]), Commit: l.Commit, UnpinAfter: l.After, Deployment: l.Deployment,
		Author: l.By, Reason: l.Reason, SinceTime: stamp(l.Since), UntilTime: stamp(l.Until),
	}
}
