package signin

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/lending"
	"fairlead.dev/services/console/internal/store"
)

type lendings struct{ Deps }

func (s *lendings) CreateAccessRequest(ctx context.Context, req *consolev1.CreateAccessRequestRequest) (*consolev1.CreateAccessRequestResponse, error) {
	r, err := s.Lending.Request(ctx, call.By(ctx), lending.Ask{Cluster: req.GetCluster(), Role: req.GetRole(), Reason: req.GetReason(), For: req.GetDuration().AsDuration()})
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.CreateAccessRequestResponse{Request: encodeAccessRequest(r)}, nil
}

func (s *lendings) ListAccessRequests(ctx context.Context, req *consolev1.ListAccessRequestsRequest) (*consolev1.ListAccessRequestsResponse, error) {
	list, next, err := s.Lending.List(ctx, call.By(ctx), req.GetAll(), int(req.GetPageSize()), req.GetPageToken())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.ListAccessRequestsResponse{Requests: descriptor.Each(list, encodeAccessRequest), NextPageToken: next}, nil
}

func (s *lendings) ApproveAccessRequest(ctx context.Context, req *consolev1.ApproveAccessRequestRequest) (*consolev1.ApproveAccessRequestResponse, error) {
	r, err := s.Lending.Approve(ctx, call.By(ctx), req.GetId(), req.GetReason())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.ApproveAccessRequestResponse{Request: encodeAccessRequest(r)}, nil
}

func (s *lendings) DenyAccessRequest(ctx context.Context, req *consolev1.DenyAccessRequestRequest) (*consolev1.DenyAccessRequestResponse, error) {
	r, err := s.Lending.Deny(ctx, call.By(ctx), req.GetId(), req.GetReason())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.DenyAccessRequestResponse{Request: encodeAccessRequest(r)}, nil
}

func (s *lendings) RevokeAccessRequest(ctx context.Context, req *consolev1.RevokeAccessRequestRequest) (*consolev1.RevokeAccessRequestResponse, error) {
	r, err := s.Lending.Revoke(ctx, call.By(ctx), req.GetId(), req.GetReason())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.RevokeAccessRequestResponse{Request: encodeAccessRequest(r)}, nil
}

func encodeAccessRequest(r store.AccessRequest) *consolev1.AccessRequest {
	out := &consolev1.AccessRequest{
		Id: r.ID, Cluster: r.Cluster, Role: r.Role, Subject: shownName(r.Subject), Duration: durationpb.New(r.For), Reason: r.Reason,
		State: requestState(r.State), CreateTime: descriptor.Stamp(r.CreateTime),
		Decider: shownName(r.Decider), DecisionReason: r.DecisionReason, DecideTime: descriptor.Stamp(r.DecideTime),
		Revoker: shownName(r.Revoker), RevocationReason: r.RevocationReason, RevokeTime: descriptor.Stamp(r.RevokeTime), Grant: r.Grant,
	}
	if out.UntilTime = descriptor.Stamp(r.Until); r.State == store.RequestWaiting {
		out.UntilTime = descriptor.Stamp(r.Due)
	}
	return out
}

func requestState(s store.RequestState) consolev1.AccessRequestState {
	switch s {
	case store.RequestWaiting:
		return consolev1.AccessRequestState_ACCESS_REQUEST_STATE_WAITING
	case store.RequestApproved:
		return consolev1.AccessRequestState_ACCESS_REQUEST_STATE_APPROVED
	case store.RequestDenied:
		return consolev1.AccessRequestState_ACCESS_REQUEST_STATE_DENIED
	case store.RequestEnded:
		return consolev1.AccessRequestState_ACCESS_REQUEST_STATE_ENDED
	case store.RequestRevoked:
		return consolev1.AccessRequestState_ACCESS_REQUEST_STATE_REVOKED
	case store.RequestLapsed:
		return consolev1.AccessRequestState_ACCESS_REQUEST_STATE_LAPSED
	}
	return consolev1.AccessRequestState_ACCESS_REQUEST_STATE_UNSPECIFIED
}
