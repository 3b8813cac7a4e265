package rpc

import (
	"context"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

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

		consolev1connect.RevisionServiceListRevisionsProcedure:   judged,
		consolev1connect.RevisionServiceListDeploymentsProcedure: judged,
		consolev1connect.RevisionServiceRollbackServiceProcedure: judged,

		consolev1connect.ObjectServiceListObjectsProcedure:     identity.RoleUser | identity.RoleHub,
		consolev1connect.ObjectServiceGetServiceDiffProcedure:  identity.RoleUser | identity.RoleHub,
		consolev1connect.ObjectServiceGetServiceNotesProcedure: identity.RoleUser | identity.RoleHub,
		consolev1connect.ObjectServiceRecordDetailsProcedure:   identity.RoleDistributor,
	}
}

type levers struct{ Deps }

// pull changes how a service is synced, and nothing else.
func (s *levers) pull(ctx context.Context, name string, change func(*deliveryv1.SyncSpec, *catalog.Service) error) (*consolev1.Service, error) {
	out, err := s.Catalog.ChangeService(ctx, by(ctx), name, func(service *catalog.Service) error {
		sync := option(service.Spec.Sync, &deliveryv1.SyncSpec{})
		if sync == nil {
			sync = &deliveryv1.SyncSpec{}
		}
		if err := change(sync, service); err != nil {
			return err
		}
		service.Spec.Sync = nil
		if proto.Size(sync) > 0 {
			service.Spec.Sync = optionText(sync)
		}
		return nil
	})
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return encodeService(out), nil
}

func (s *levers) HoldService(ctx context.Context, req *consolev1.HoldServiceRequest) (*consolev1.HoldServiceResponse, error) {
	out, err := s.pull(ctx, req.GetName(), func(sync *deliveryv1.SyncSpec, _ *catalog.Service) error {
		sync.Mode, sync.Reason = req.GetMode(), req.GetReason()
		if sync.GetMode() == deliveryv1.SyncMode_SYNC_MODE_UNSPECIFIED {
			sync.Mode = deliveryv1.SyncMode_SYNC_MODE_HOLD
		}
		return nil
	})
	return &consolev1.HoldServiceResponse{Service: out}, err
}

func (s *levers) ResumeService(ctx context.Context, req *consolev1.ResumeServiceRequest) (*consolev1.ResumeServiceResponse, error) {
	out, err := s.pull(ctx, req.GetName(), func(sync *deliveryv1.SyncSpec, _ *catalog.Service) error {
		sync.Mode = deliveryv1.SyncMode_SYNC_MODE_UNSPECIFIED
		if sync.GetPin() == "" {
			sync.Reason = ""
		}
		return nil
	})
	return &consolev1.ResumeServiceResponse{Service: out}, err
}

func (s *levers) PinService(ctx context.Context, req *consolev1.PinServiceRequest) (*consolev1.PinServiceResponse, error) {
	out, err := s.pull(ctx, req.GetName(), func(sync *deliveryv1.SyncSpec, service *catalog.Service) error {
		automatic := sync.GetMode() <= deliveryv1.SyncMode_SYNC_MODE_AUTO
		sync.Pin, service.Spec.UnpinAfter = req.GetCommit(), "" // which another pin may have left
		if req.GetUntilNext() {
			if err := s.Catalog.UntilNext(ctx, service); err != nil {
				return err
			}
		}
		switch {
		case req.GetReason() != "":
			sync.Reason = req.GetReason()
		case automatic: // the reason was that of another pin
			sync.Reason = ""
		}
		return nil
	})
	return &consolev1.PinServiceResponse{Service: out}, err
}

func (s *levers) RequestSync(ctx context.Context, req *consolev1.RequestSyncRequest) (*consolev1.RequestSyncResponse, error) {
	now := timestamppb.Now()
	out, err := s.pull(ctx, req.GetName(), func(sync *deliveryv1.SyncSpec, _ *catalog.Service) error {
		sync.RequestTime = now
		return nil
	})
	return &consolev1.RequestSyncResponse{Service: out}, err
}

func (s *levers) ConfirmPrune(ctx context.Context, req *consolev1.ConfirmPruneRequest) (*consolev1.ConfirmPruneResponse, error) {
	out, err := s.pull(ctx, req.GetName(), func(sync *deliveryv1.SyncSpec, service *catalog.Service) error {
		if err := service.Guarded(req.GetGuard()); err != nil {
			return err
		}
		if sync.GetPrune() == nil {
			sync.Prune = &deliveryv1.PruneSpec{}
		}
		sync.Prune.Confirmed = req.GetGuard()
		return nil
	})
	return &consolev1.ConfirmPruneResponse{Service: out}, err
}
