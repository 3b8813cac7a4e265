package rpc

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	rules "fairlead.dev/platform/access"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/window"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
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
		consolev1connect.SyncServiceFreezeProcedure:        judged,
		consolev1connect.SyncServiceUnfreezeProcedure:      judged,

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
	out, err := s.Catalog.Hold(ctx, call.By(ctx), req.GetName(), mode.String(), req.GetReason(), descriptor.Moment(req.GetUntilTime()))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.HoldServiceResponse{Service: encodeService(out)}, nil
}

func (s *levers) ResumeService(ctx context.Context, req *consolev1.ResumeServiceRequest) (*consolev1.ResumeServiceResponse, error) {
	out, err := s.Catalog.Resume(ctx, call.By(ctx), req.GetName())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.ResumeServiceResponse{Service: encodeService(out)}, nil
}

func (s *levers) PinService(ctx context.Context, req *consolev1.PinServiceRequest) (*consolev1.PinServiceResponse, error) {
	out, err := s.Catalog.Pin(ctx, call.By(ctx), req.GetName(), req.GetCommit(), req.GetReason(), req.GetUntilNext(), descriptor.Moment(req.GetUntilTime()))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.PinServiceResponse{Service: encodeService(out)}, nil
}

func (s *levers) RequestSync(ctx context.Context, req *consolev1.RequestSyncRequest) (*consolev1.RequestSyncResponse, error) {
	out, err := s.Catalog.RequestSync(ctx, call.By(ctx), req.GetName(), catalog.SyncRequest{
		Override: req.GetOverride(), Only: req.GetOnly(), MayOverride: func(c window.Closing) error { return s.mayOverride(ctx, c) },
		Known: s.missing,
	})
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.RequestSyncResponse{Service: encodeService(out)}, nil
}

// mayOverride refuses to override what closes a service, unless the caller may edit the resource that has it, or the
// windows name it.
func (s *levers) mayOverride(ctx context.Context, c window.Closing) error {
	who, _ := identity.FromContext(ctx)
	for _, w := range c.Windows {
		if overrides(who, w.GetOverriders()) {
			return nil
		}
	}
	kind := map[string]string{"project": rules.Project, "cluster": rules.Cluster, "service": rules.Service}[c.Kind]
	at, err := s.Rights.Find(ctx, rules.Target{Kind: kind, Name: c.Name})
	if err != nil {
		return err
	}
	return s.Rights.May(ctx, rules.Edit, at)
}

// overrides tells whether a caller is among those that a window names.
func overrides(who identity.Identity, subjects []string) bool {
	if who.Kind != identity.KindUser {
		return false
	}
	account, isAccount := who.ServiceAccount()
	return slices.ContainsFunc(subjects, func(subject string) bool {
		switch kind, name, _ := strings.Cut(subject, ":"); kind {
		case "user":
			return !isAccount && name == who.Name
		case "group":
			return slices.Contains(who.Groups, name)
		case "serviceaccount":
			return isAccount && name == account
		}
		return false
	})
}

func (s *levers) Freeze(ctx context.Context, req *consolev1.FreezeRequest) (*consolev1.FreezeResponse, error) {
	f := &state.Freeze{Reason: req.GetReason(), Until: descriptor.Moment(req.GetUntilTime()), Leaves: req.GetDrift() == deliveryv1.WindowDrift_WINDOW_DRIFT_LEAVE}
	out, _, err := s.Catalog.Freeze(ctx, call.By(ctx), store.Kind(req.GetKind()), req.GetName(), f)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.FreezeResponse{Freeze: out.Encode()}, nil
}

func (s *levers) Unfreeze(ctx context.Context, req *consolev1.UnfreezeRequest) (*consolev1.UnfreezeResponse, error) {
	_, was, err := s.Catalog.Freeze(ctx, call.By(ctx), store.Kind(req.GetKind()), req.GetName(), nil)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.UnfreezeResponse{Ended: was}, nil
}

func (s *levers) ConfirmPrune(ctx context.Context, req *consolev1.ConfirmPruneRequest) (*consolev1.ConfirmPruneResponse, error) {
	out, err := s.Catalog.ConfirmPrune(ctx, call.By(ctx), req.GetName(), req.GetGuard())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.ConfirmPruneResponse{Service: encodeService(out)}, nil
}

// encodeLevers is nil where there are none.
func encodeLevers(l *state.Levers) *consolev1.ServiceLevers {
	if l == nil || l.Mode == nil && l.Pin == nil && l.Files == nil {
		return nil
	}
	out := &consolev1.ServiceLevers{Mode: encodeLever(l.Mode), Pin: encodeLever(l.Pin)}
	if l.Files != nil {
		out.Spec = encodeServiceSpec(*l.Files)
	}
	return out
}

func encodeLever(l *state.Lever) *consolev1.Lever {
	if l == nil {
		return nil
	}
	return &consolev1.Lever{
		Mode: deliveryv1.SyncMode(deliveryv1.SyncMode_value[l.Mode]), Commit: l.Commit, UnpinAfter: l.After, Deployment: l.Deployment,
		Author: l.By, Reason: l.Reason, SinceTime: descriptor.Stamp(l.Since), UntilTime: descriptor.Stamp(l.Until),
	}
}
