package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/live"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/watch"
)

// readMounts are the services by which people look on.
func readMounts(d Deps) []server.Mount {
	return []server.Mount{
		server.RPC(consolev1connect.LiveServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			path, h := consolev1connect.NewLiveServiceHandler(&lives{d}, o...)
			return path, withDeadlines(h)
		}),
		server.RPC(consolev1connect.EventServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			path, h := consolev1connect.NewEventServiceHandler(&events{d}, o...)
			return path, withDeadlines(h)
		}),
	}
}

func readPolicy() identity.Policy {
	return identity.Policy{
		consolev1connect.LiveServiceWatchResourcesProcedure: identity.RoleUser,
		consolev1connect.LiveServiceCountResourcesProcedure: identity.RoleUser,
		consolev1connect.LiveServiceWatchQueriesProcedure:   identity.RoleUser,

		consolev1connect.EventServiceListEventsProcedure:  identity.RoleUser,
		consolev1connect.EventServiceWatchEventsProcedure: identity.RoleUser,
	}
}

// maxLooks is how many streams one person, or one service account, looks on by: some tabs, dashboards and programs. Each that is not read keeps
// what it was about to be sent.
const maxLooks = 100

// look counts a stream of the caller. Call leave at its end.
func (d Deps) look(ctx context.Context) (leave func(), err error) {
	caller, _ := identity.FromContext(ctx) // the policy has seen to it
	subject := caller.Subject()
	if !d.looks.Take(subject, 1) {
		err := connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("%s has %d streams open: close some and dial again", subject, maxLooks))
		err.Meta().Set("Retry-After", "10")
		return nil, err
	}
	return func() { d.looks.Give(subject, 1) }, nil
}

type lives struct{ Deps }

func (s *lives) WatchResources(ctx context.Context, req *consolev1.WatchResourcesRequest, stream *connect.ServerStream[consolev1.WatchResourcesResponse]) error {
	var kinds []store.Kind
	for _, kind := range store.Kinds() {
		for _, k := range req.GetKinds() {
			if encodeKind(kind) == k {
				kinds = append(kinds, kind)
			}
		}
	}
	switch {
	case len(req.GetKinds()) == 0:
		kinds = store.Kinds()
	case len(kinds) == 0:
		return connect.NewError(connect.CodeInvalidArgument, errors.New("kinds: the console knows none of them: is it older than the caller?"))
	}
	leave, err := s.look(ctx)
	if err != nil {
		return err
	}
	defer leave()
	err = s.Board.Follow(ctx, &live.Follower{Kinds: kinds, Filter: req.GetFilter(), Token: req.GetResumeToken(), Send: func(m live.Message) error {
		out, err := s.message(ctx, m)
		if err != nil {
			return err
		}
		return bounded(ctx, sendTimeout, func() error { return stream.Send(out) })
	}})
	if errors.Is(ctx.Err(), context.Canceled) {
		// The caller went, or the console drains: either way there is nothing to find in a log.
		return connect.NewError(connect.CodeUnavailable, watch.ErrStopped)
	}
	return s.fail(ctx, err)
}

func (s *lives) CountResources(ctx context.Context, req *consolev1.CountResourcesRequest) (*consolev1.CountResourcesResponse, error) {
	now := time.Now()
	groups, err := s.Board.Count(ctx, decodeKind(req.GetKind()), req.GetFilter(), req.GetGroupBy())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.CountResourcesResponse{Counts: each(groups, encodeGroup), ObservedTime: timestamppb.New(now)}, nil
}

func encodeGroup(g live.Group) *consolev1.ResourceCount {
	return &consolev1.ResourceCount{Values: g.Values, Count: int32(min(g.Count, math.MaxInt32))}
}

func (s *lives) message(ctx context.Context, m live.Message) (*consolev1.WatchResourcesResponse, error) {
	out := &consolev1.WatchResourcesResponse{ResumeToken: m.Token}
	switch m.Kind {
	case live.SnapshotBegin:
		out.Event = &consolev1.WatchResourcesResponse_SnapshotBegin{SnapshotBegin: &consolev1.SnapshotBegin{}}
	case live.SnapshotEnd:
		out.Event = &consolev1.WatchResourcesResponse_SnapshotEnd{SnapshotEnd: &consolev1.SnapshotEnd{}}
	case live.Heartbeat:
		out.Event = &consolev1.WatchResourcesResponse_Heartbeat{Heartbeat: &consolev1.Heartbeat{}}
	case live.Changes:
		changes := &consolev1.LiveChanges{}
		b := &batch{lives: s, items: m.Items}
		for _, item := range m.Items {
			encoded, err := item.Encoded(func() (any, error) { return b.encode(context.WithoutCancel(ctx), item.Value) })
			if err != nil {
				return nil, err
			}
			changes.Resources = append(changes.Resources, encoded.(*consolev1.Resource)) //nolint:forcetypeassert // encodeAny returned it
		}
		for _, d := range m.Deleted {
			changes.Deleted = append(changes.Deleted, &consolev1.Deleted{Kind: encodeKind(d.Kind), Name: d.Name, Uid: d.UID})
		}
		out.Event = &consolev1.WatchResourcesResponse_Changes{Changes: changes}
	}
	return out, nil
}

// batch encodes the items of a message. Items that count services are looked up together, when the first of them is
// wanted.
type batch struct {
	*lives
	items []*live.Item
	known map[string]*consolev1.Resource // of one kind each; nil: not looked up yet
}

// valuesOf are the items that are a T.
func valuesOf[T any](items []*live.Item) (out []T) {
	for _, item := range items {
		if v, ok := item.Value.(T); ok {
			out = append(out, v)
		}
	}
	return out
}

// counted looks up those that count services.
func (s *batch) counted(ctx context.Context, kind store.Kind, name string) (*consolev1.Resource, error) {
	if s.known != nil {
		return s.known[string(kind)+"/"+name], nil
	}
	known := map[string]*consolev1.Resource{}
	projectList, err := (&projects{s.Deps}).shown(ctx, valuesOf[catalog.Project](s.items))
	if err != nil {
		return nil, err
	}
	for _, p := range projectList {
		known[string(store.KindProject)+"/"+p.GetMetadata().GetName()] = &consolev1.Resource{Resource: &consolev1.Resource_Project{Project: p}}
	}
	globalList, err := (&globals{s.Deps}).shown(ctx, valuesOf[catalog.GlobalService](s.items))
	if err != nil {
		return nil, err
	}
	for _, g := range globalList {
		known[string(store.KindGlobalService)+"/"+g.GetMetadata().GetName()] = &consolev1.Resource{Resource: &consolev1.Resource_GlobalService{GlobalService: g}}
	}
	setList, err := (&configSets{s.Deps}).shown(ctx, valuesOf[catalog.ConfigSet](s.items))
	if err != nil {
		return nil, err
	}
	for _, c := range setList {
		known[string(store.KindConfigSet)+"/"+c.GetMetadata().GetName()] = &consolev1.Resource{Resource: &consolev1.Resource_ConfigSet{ConfigSet: c}}
	}
	s.known = known
	return known[string(kind)+"/"+name], nil
}

// encode encodes what catalog.Load returned.
func (s *batch) encode(ctx context.Context, value any) (*consolev1.Resource, error) {
	switch v := value.(type) {
	case catalog.Source:
		return &consolev1.Resource{Resource: &consolev1.Resource_Source{Source: encodeSource(v)}}, nil
	case catalog.Cluster:
		return &consolev1.Resource{Resource: &consolev1.Resource_Cluster{Cluster: encodeCluster(v)}}, nil
	case catalog.Service:
		return &consolev1.Resource{Resource: &consolev1.Resource_Service{Service: encodeService(v)}}, nil
	case catalog.Secret:
		return &consolev1.Resource{Resource: &consolev1.Resource_Secret{Secret: encodeSecret(v)}}, nil
	case catalog.Grant:
		return &consolev1.Resource{Resource: &consolev1.Resource_Grant{Grant: encodeGrant(v)}}, nil
	case catalog.Project:
		return s.counted(ctx, store.KindProject, v.Meta.Name)
	case catalog.GlobalService:
		return s.counted(ctx, store.KindGlobalService, v.Meta.Name)
	case catalog.ConfigSet:
		return s.counted(ctx, store.KindConfigSet, v.Meta.Name)
	case catalog.Backend:
		shown, err := (&backends{s.Deps}).shown(ctx, v)
		if err != nil {
			return nil, err
		}
		return &consolev1.Resource{Resource: &consolev1.Resource_Backend{Backend: shown[0]}}, nil
	case catalog.Sink:
		shown, err := (&sinks{s.Deps}).shown(ctx, []catalog.Sink{v})
		if err != nil {
			return nil, err
		}
		return &consolev1.Resource{Resource: &consolev1.Resource_Sink{Sink: shown[0]}}, nil
	case catalog.Resource[catalog.RoleSpec]:
		return &consolev1.Resource{Resource: &consolev1.Resource_Role{Role: encodeRole(v)}}, nil
	case catalog.Resource[catalog.ServiceAccountSpec]:
		return &consolev1.Resource{Resource: &consolev1.Resource_ServiceAccount{ServiceAccount: encodeServiceAccount(v)}}, nil
	}
	return nil, fmt.Errorf("encode a %T: people do not look at these", value)
}

type events struct{ Deps }

func (s *events) ListEvents(ctx context.Context, req *consolev1.ListEventsRequest) (*consolev1.ListEventsResponse, error) {
	page, err := s.Events.List(ctx, req.GetFilter(), int(req.GetPageSize()), req.GetPageToken())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.ListEventsResponse{Events: page.Events, NextPageToken: page.Next, ResumeToken: page.Resume}, nil
}

func (s *events) WatchEvents(ctx context.Context, req *consolev1.WatchEventsRequest, stream *connect.ServerStream[consolev1.WatchEventsResponse]) error {
	leave, err := s.look(ctx)
	if err != nil {
		return err
	}
	defer leave()
	err = s.Events.Follow(ctx, req.GetFilter(), req.GetResumeToken(), func(list []*consolev1.Event, resume string) error {
		return bounded(ctx, sendTimeout, func() error {
			return stream.Send(&consolev1.WatchEventsResponse{Events: list, ResumeToken: resume})
		})
	})
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return connect.NewError(connect.CodeUnavailable, watch.ErrStopped) // as above
	case errors.Is(err, event.ErrGone):
		return connect.NewError(connect.CodeOutOfRange, event.ErrGone)
	}
	return s.fail(ctx, err)
}
