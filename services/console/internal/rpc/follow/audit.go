package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	platform "fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/store/audittrail"
)

type audits struct{ Deps }

func (s *audits) RecordAuditEvents(ctx context.Context, req *consolev1.RecordAuditEventsRequest) (*consolev1.RecordAuditEventsResponse, error) {
	recorder := call.Actor(ctx)
	events := make([]audittrail.Event, len(req.GetEvents()))
	for i, e := range req.GetEvents() {
		if err := audit.Check(e); err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("events[%d].%w", i, err))
		}
		e.Recorder, e.Before, e.After = recorder, "", "" // the console says what the catalog was
		events[i] = audit.Stored(e)
	}
	if err := s.Audit.Append(ctx, events); err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.RecordAuditEventsResponse{}, nil
}

func (s *audits) ListAuditEvents(ctx context.Context, req *consolev1.ListAuditEventsRequest) (*consolev1.ListAuditEventsResponse, error) {
	filter, err := decodeAuditFilter(req.GetFilter())
	if err != nil {
		return nil, err
	}
	page, err := s.Audit.List(ctx, filter, int(req.GetPageSize()), req.GetPageToken())
	if err != nil {
		return nil, s.failAudit(ctx, err)
	}
	events, err := decodeEvents(page.Events)
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.ListAuditEventsResponse{Events: events, NextPageToken: page.Next, ResumeToken: page.Resume}, nil
}

func (s *audits) WatchAuditEvents(ctx context.Context, req *consolev1.WatchAuditEventsRequest, stream *connect.ServerStream[consolev1.WatchAuditEventsResponse]) error {
	filter, err := decodeAuditFilter(req.GetFilter())
	if err != nil {
		return err
	}
	leave, err := s.look(ctx)
	if err != nil {
		return err
	}
	defer leave()
	err = s.Audit.Follow(ctx, filter, req.GetResumeToken(), func(list []audittrail.Event, resume string) error {
		events, err := decodeEvents(list)
		if err != nil {
			return err
		}
		return call.Bounded(ctx, call.SendTimeout, func() error {
			return stream.Send(&consolev1.WatchAuditEventsResponse{Events: events, ResumeToken: resume})
		})
	})
	if ctx.Err() != nil {
		// The caller went, or the console drains: either way there is nothing to find in a log.
		return connect.NewError(connect.CodeUnavailable, errors.New("the console ends this stream: dial again"))
	}
	return s.failAudit(ctx, err)
}

func (s *audits) failAudit(ctx context.Context, err error) error {
	if errors.Is(err, audit.ErrToken) {
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("token: %w", err))
	}
	if errors.Is(err, audit.ErrGone) {
		return connect.NewError(connect.CodeOutOfRange, audit.ErrGone)
	}
	return s.Fail(ctx, err)
}

func decodeAuditFilter(f *consolev1.AuditFilter) (audittrail.Filter, error) {
	// access.* and access. are the same beginning of an action as access.
	action := strings.TrimSuffix(strings.TrimSuffix(f.GetAction(), "*"), ".")
	out := audittrail.Filter{Cluster: f.GetCluster(), Action: action, Since: descriptor.Moment(f.GetSince())}
	if f.GetAction() != "" && !audit.IsAction(action) {
		return out, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(
			"filter.action: no action is called %q: write whole words, such as tunnel, tunnel.request or tunnel.request.end",
			f.GetAction()))
	}
	name := f.GetActor()
	if name == "" {
		return out, nil
	}
	for _, kind := range []platform.Kind{platform.KindUser, platform.KindAgent, platform.KindService} {
		if strings.HasPrefix(name, string(kind)+":") {
			out.Actors = []string{name}
			return out, nil
		}
		out.Actors = append(out.Actors, platform.Identity{Kind: kind, Name: name}.Subject())
	}
	return out, nil
}

func decodeEvents(list []audittrail.Event) ([]*consolev1.AuditEvent, error) {
	out := make([]*consolev1.AuditEvent, len(list))
	// Of a later version, after a rollback, there may be more fields.
	read := protojson.UnmarshalOptions{DiscardUnknown: true}
	for i, e := range list {
		out[i] = &consolev1.AuditEvent{}
		if err := read.Unmarshal(e.Event, out[i]); err != nil {
			return nil, fmt.Errorf("decode audit event %s: %w", e.ID, err)
		}
	}
	return out, nil
}
