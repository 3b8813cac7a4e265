package follow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/kind"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/index"
	"fairlead.dev/services/console/internal/store"
)

type lives struct{ Deps }

func (s *lives) WatchResources(ctx context.Context, req *consolev1.WatchResourcesRequest, stream *connect.ServerStream[consolev1.WatchResourcesResponse]) error {
	var kinds []store.Kind
	for _, k := range store.Kinds() {
		if slices.Contains(req.GetKinds(), descriptor.Number(k)) {
			kinds = append(kinds, k)
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
	err = s.Board.Follow(ctx, &index.Follower{Kinds: kinds, Filter: req.GetFilter(), Token: req.GetResumeToken(), Send: func(m index.Message) error {
		out, err := s.message(ctx, m)
		if err != nil {
			return err
		}
		return call.Bounded(ctx, call.SendTimeout, func() error { return stream.Send(out) })
	}})
	if errors.Is(ctx.Err(), context.Canceled) {
		// The caller went, or the console drains: either way there is nothing to find in a log.
		return connect.NewError(connect.CodeUnavailable, feed.ErrStopped)
	}
	return s.Fail(ctx, err)
}

func (s *lives) CountResources(ctx context.Context, req *consolev1.CountResourcesRequest) (*consolev1.CountResourcesResponse, error) {
	now := time.Now()
	groups, err := s.Board.Count(ctx, descriptor.Numbered(req.GetKind()), req.GetFilter(), req.GetGroupBy())
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.CountResourcesResponse{Counts: descriptor.Each(groups, encodeGroup), ObservedTime: timestamppb.New(now)}, nil
}

func (s *lives) Search(ctx context.Context, req *consolev1.SearchRequest) (*consolev1.SearchResponse, error) {
	found, total, err := s.Board.Search(ctx, req.GetText(), descriptor.Each(req.GetKinds(), descriptor.Numbered), int(req.GetLimit()))
	if err != nil {
		return nil, s.Fail(ctx, err)
	}
	return &consolev1.SearchResponse{TotalSize: int32(min(total, math.MaxInt32)), Results: descriptor.Each(found, func(f index.Found) *consolev1.SearchResult {
		return &consolev1.SearchResult{Kind: descriptor.Number(f.Kind), Name: f.Name, Field: f.Field, State: f.State, Cluster: f.Cluster, Project: f.Project}
	})}, nil
}

func encodeGroup(g index.Group) *consolev1.ResourceCount {
	return &consolev1.ResourceCount{Values: g.Values, Count: int32(min(g.Count, math.MaxInt32))}
}

func (s *lives) message(ctx context.Context, m index.Message) (*consolev1.WatchResourcesResponse, error) {
	out := &consolev1.WatchResourcesResponse{ResumeToken: m.Token}
	switch m.Kind {
	case index.SnapshotBegin:
		out.Event = &consolev1.WatchResourcesResponse_SnapshotBegin{SnapshotBegin: &consolev1.SnapshotBegin{}}
	case index.SnapshotEnd:
		out.Event = &consolev1.WatchResourcesResponse_SnapshotEnd{SnapshotEnd: &consolev1.SnapshotEnd{}}
	case index.Heartbeat:
		out.Event = &consolev1.WatchResourcesResponse_Heartbeat{Heartbeat: &consolev1.Heartbeat{}}
	case index.Changes:
		changes := &consolev1.LiveChanges{}
		b := &batch{lives: s, items: m.Items}
		for _, item := range m.Items {
			encoded, err := item.Encoded(func() (any, error) { return b.encode(context.WithoutCancel(ctx), item) })
			if err != nil {
				return nil, err
			}
			changes.Resources = append(changes.Resources, encoded.(*consolev1.Resource)) //nolint:forcetypeassert // encodeAny returned it
		}
		for _, d := range m.Deleted {
			changes.Deleted = append(changes.Deleted, &consolev1.Deleted{Kind: descriptor.Number(d.Kind), Name: d.Name, Uid: d.UID})
		}
		out.Event = &consolev1.WatchResourcesResponse_Changes{Changes: changes}
	}
	return out, nil
}

// batch encodes the items of a message. Items of a kind that asks the database for each are looked up together, when
// the first of them is wanted.
type batch struct {
	lives *lives
	items []*index.Item
	known map[*index.Item]*consolev1.Resource
}

// encode encodes one of the items.
func (s *batch) encode(ctx context.Context, item *index.Item) (*consolev1.Resource, error) {
	if known, ok := s.known[item]; ok {
		return known, nil
	}
	of := s.lives.Kinds.Stored(item.Kind)
	if of == nil {
		return nil, fmt.Errorf("encode a %T: people do not look at these", item.Value)
	}
	together := []*index.Item{item}
	if of.Together() {
		together = nil
		for _, one := range s.items {
			if one.Kind == item.Kind {
				together = append(together, one)
			}
		}
	}
	shown, err := of.Shared(ctx, s.lives.Catalog, descriptor.Each(together, func(one *index.Item) any { return one.Value }))
	if err != nil {
		return nil, err
	}
	if s.known == nil {
		s.known = map[*index.Item]*consolev1.Resource{}
	}
	for i, m := range shown {
		s.known[together[i]] = kind.Wrap(m)
	}
	return s.known[item], nil
}

type events struct{ Deps }

func (s *events) ListEvents(ctx context.Context, req *consolev1.ListEventsRequest) (*consolev1.ListEventsResponse, error) {
	page, err := s.Events.List(ctx, req.GetFilter(), int(req.GetPageSize()), req.GetPageToken())
	if err != nil {
		return nil, s.Fail(ctx, err)
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
		return call.Bounded(ctx, call.SendTimeout, func() error {
			return stream.Send(&consolev1.WatchEventsResponse{Events: list, ResumeToken: resume})
		})
	})
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return connect.NewError(connect.CodeUnavailable, feed.ErrStopped) // as above
	case errors.Is(err, event.ErrGone):
		return connect.NewError(connect.CodeOutOfRange, event.ErrGone)
	}
	return s.Fail(ctx, err)
}
