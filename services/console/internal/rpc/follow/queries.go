package follow

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/index"
)

const (
	// answerEvery is how often a stream answers its queries while there are changes.
	answerEvery = 500 * time.Millisecond
	// queriesBeat is how often a stream says that its answers are as of now; the contract is 15 s at most.
	queriesBeat = 10 * time.Second
)

// WatchQueries answers in the stream's own goroutine: a caller that does not read delays its own answers only, and is
// cut off after call.SendTimeout.
func (s *lives) WatchQueries(ctx context.Context, req *consolev1.WatchQueriesRequest, stream *connect.ServerStream[consolev1.WatchQueriesResponse]) error {
	leave, err := s.look(ctx)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(ctx)
	w := &queries{lives: s, stream: stream, news: make(chan eventNews)}
	defer func() {
		cancel()
		for range w.followers {
			<-w.ended //nolint:errcheck // the stream ends anyway
		}
	}()
	if err := w.begin(ctx, req.GetQueries()); err != nil {
		return err
	}
	err = w.run(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return connect.NewError(connect.CodeUnavailable, feed.ErrStopped) // The caller went, or the console drains.
	}
	return s.Fail(ctx, err)
}

// queries is one stream.
type queries struct {
	lives  *lives
	stream *connect.ServerStream[consolev1.WatchQueriesResponse]
	list   []*query
	viewed []*viewQuery
	// Each follower of events sends to news, and its end to ended.
	followers int
	news      chan eventNews
	ended     chan error
}

// query is one of a stream's that the board answers.
type query struct {
	name     string
	standing *index.Standing
	mask     []string
	names    []string            // that the caller has; nil: none yet
	items    map[string]sentItem // by name
	next     string
	total    int
}

// sentItem is what the caller has of a resource. item is nil if an earlier stream sent it.
type sentItem struct {
	item    *index.Item
	version uint64
}

type eventNews struct {
	name   string
	answer *consolev1.EventsAnswer
}

func (w *queries) begin(ctx context.Context, list []*consolev1.Query) error {
	w.ended = make(chan error, len(list))
	seen := map[string]bool{}
	for _, q := range list {
		if seen[q.GetName()] {
			return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("queries: two are named %q: an answer would not say which it is of", q.GetName()))
		}
		seen[q.GetName()] = true
		if q.GetEvents() != nil {
			w.followers++
			go func() { w.ended <- w.follow(ctx, q) }()
			continue
		}
		if made := viewQueryOf(q); made != nil {
			w.viewed = append(w.viewed, made)
			continue
		}
		made, err := w.stand(q)
		if err != nil {
			if err := w.refuse(ctx, q.GetName(), err); err != nil {
				return err
			}
			continue
		}
		w.list = append(w.list, made)
	}
	return nil
}

// stand reads a query.
func (w *queries) stand(q *consolev1.Query) (made *query, err error) {
	made = &query{name: q.GetName(), items: map[string]sentItem{}}
	if counts := q.GetCounts(); counts != nil {
		made.standing, err = w.lives.Board.Stand(index.Question{
			Kind: descriptor.Numbered(counts.GetKind()), Filter: counts.GetFilter(), Count: true, By: counts.GetGroupBy(),
			OnlyChanges: q.GetOnlyChanges(),
		})
		return made, err
	}
	list := q.GetList()
	if err := validMask(list.GetKind(), list.GetReadMask()); err != nil {
		return nil, err
	}
	made.mask = list.GetReadMask().GetPaths()
	for _, k := range q.GetKnown() {
		made.items[k.GetName()] = sentItem{version: k.GetVersion()}
	}
	made.standing, err = w.lives.Board.Stand(index.Question{
		Kind: descriptor.Numbered(list.GetKind()), Filter: list.GetFilter(), Order: list.GetOrderBy(), Token: list.GetPageToken(), Size: int(list.GetPageSize()),
	})
	return made, err
}

// validMask says what of a mask is no field of a kind.
func validMask(kind consolev1.Kind, mask *fieldmaskpb.FieldMask) error {
	field := (&consolev1.Resource{}).ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(strings.ToLower(strings.TrimPrefix(kind.String(), "KIND_"))))
	if field == nil {
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("kind: %s is not listed", kind))
	}
	of := (&consolev1.Resource{}).ProtoReflect().NewField(field).Message().Interface()
	for _, path := range mask.GetPaths() {
		if !(&fieldmaskpb.FieldMask{Paths: []string{path}}).IsValid(of) {
			return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("read_mask: %q is no field of %s: write it like metadata.name", path, field.Message().Name()))
		}
	}
	return nil
}

// refuse tells that a query can't be answered. An error that concerns all queries ends the stream.
func (w *queries) refuse(ctx context.Context, name string, err error) error {
	refused := new(connect.Error)
	if errors.As(w.lives.Fail(ctx, err), &refused) && (refused.Code() == connect.CodeInvalidArgument || refused.Code() == connect.CodeNotFound) {
		return w.send(ctx, name, &consolev1.WatchQueriesResponse{Event: &consolev1.WatchQueriesResponse_Problem{
			Problem: &consolev1.QueryProblem{Code: int32(refused.Code()), Message: refused.Message()},
		}})
	}
	return err
}

func (w *queries) send(ctx context.Context, name string, m *consolev1.WatchQueriesResponse) error {
	m.Name, m.Time = name, timestamppb.Now()
	return call.Bounded(ctx, call.SendTimeout, func() error { return w.stream.Send(m) })
}

func (w *queries) run(ctx context.Context) error {
	beat := time.NewTicker(queriesBeat)
	defer beat.Stop()
	moved, err := w.answer(ctx)
	if err != nil {
		return err
	}
	views := newViewPace(w.lives.Views, w.lives.Board)
	defer views.pause.Stop()
	if err := w.answerViews(ctx, views); err != nil {
		return err
	}
	if err := w.beat(ctx); err != nil {
		return err
	}
	pause := time.NewTimer(answerEvery)
	defer pause.Stop()
	rested := false
	for {
		waits := moved // no query is answered during a pause
		if !rested {
			waits = nil
		}
		viewMoved, clusterMoved := views.waits(len(w.viewed) > 0)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-w.ended:
			w.followers--
			return err
		case n := <-w.news:
			if err := w.send(ctx, n.name, &consolev1.WatchQueriesResponse{Event: &consolev1.WatchQueriesResponse_Events{Events: n.answer}}); err != nil {
				return err
			}
		case <-pause.C:
			rested = true
		case <-waits:
			if moved, err = w.answer(ctx); err != nil {
				return err
			}
			pause.Reset(answerEvery)
			rested = false
		case <-views.pause.C:
			views.rested = true
		case <-viewMoved:
			if err := w.answerViews(ctx, views); err != nil {
				return err
			}
		case <-clusterMoved:
			if err := w.answerViews(ctx, views); err != nil {
				return err
			}
		case <-beat.C:
			// Filters with an age fit other rows by and by.
			if moved, err = w.answer(ctx); err != nil {
				return err
			}
			if err := w.answerViews(ctx, views); err != nil {
				return err
			}
			if err := w.beat(ctx); err != nil {
				return err
			}
		}
	}
}

func (w *queries) beat(ctx context.Context) error {
	if err := w.lives.Board.Stale(); err != nil {
		return err
	}
	return w.send(ctx, "", &consolev1.WatchQueriesResponse{Event: &consolev1.WatchQueriesResponse_Heartbeat{Heartbeat: &consolev1.Heartbeat{}}})
}

// alreadyMoved is closed.
var alreadyMoved = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// answer sends the answers that are not the ones of before. moved is closed when there may be others.
func (w *queries) answer(ctx context.Context) (moved <-chan struct{}, err error) {
	moved = w.lives.Board.Moved()
	if err := w.answerEach(ctx); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(w.list, func(q *query) bool { return q.standing.IsBehind() }) {
		return alreadyMoved, nil // an answer was a page that is shared for a moment
	}
	return moved, nil
}

func (w *queries) answerEach(ctx context.Context) error {
	for i := 0; i < len(w.list); i++ {
		q := w.list[i]
		answer, same, err := q.standing.Answer(ctx)
		if err == nil && !same {
			err = w.tell(ctx, q, answer)
		}
		if err == nil {
			continue
		}
		if err := w.refuse(ctx, q.name, err); err != nil {
			return err
		}
		w.list = slices.Delete(w.list, i, i+1)
		i--
	}
	return nil
}

func (w *queries) tell(ctx context.Context, q *query, answer index.Answer) error {
	if q.standing.Count {
		return w.tellCounts(ctx, q.name, answer)
	}
	out := &consolev1.ListAnswer{NextPageToken: answer.Next, TotalSize: int32(answer.Total)}
	items := make(map[string]sentItem, len(answer.Items))
	b := &batch{lives: w.lives, items: answer.Items}
	for i, item := range answer.Items {
		name := answer.Names[i]
		before := q.items[name]
		items[name] = before
		if before.item == item {
			continue
		}
		encoded, err := item.Encoded(func() (any, error) { return b.encode(context.WithoutCancel(ctx), item) })
		if err != nil {
			return err
		}
		listed, err := listedOf(encoded.(*consolev1.Resource), q.mask) //nolint:forcetypeassert // encode returned it
		if err != nil {
			return err
		}
		items[name] = sentItem{item, listed.GetVersion()}
		if before.version != listed.GetVersion() {
			out.Resources = append(out.Resources, listed)
		}
	}
	if q.names == nil || !slices.Equal(q.names, answer.Names) {
		out.Names = &consolev1.Names{Names: answer.Names}
	}
	unchanged := out.GetNames() == nil && len(out.GetResources()) == 0 && q.next == answer.Next && q.total == answer.Total
	q.items, q.next, q.total = items, answer.Next, answer.Total
	q.names = append([]string{}, answer.Names...)
	if unchanged {
		return nil
	}
	return w.send(ctx, q.name, &consolev1.WatchQueriesResponse{Event: &consolev1.WatchQueriesResponse_List{List: out}})
}

func (w *queries) tellCounts(ctx context.Context, name string, answer index.Answer) error {
	if answer.Groups == nil {
		return w.send(ctx, name, &consolev1.WatchQueriesResponse{Event: &consolev1.WatchQueriesResponse_CountChanges{
			CountChanges: &consolev1.CountChanges{Counts: descriptor.Each(answer.Changes, encodeGroup), ObservedTime: timestamppb.Now()},
		}})
	}
	return w.send(ctx, name, &consolev1.WatchQueriesResponse{Event: &consolev1.WatchQueriesResponse_Counts{
		Counts: &consolev1.CountResourcesResponse{Counts: descriptor.Each(answer.Groups, encodeGroup), ObservedTime: timestamppb.Now()},
	}})
}

// listedOf is a resource with the fields of a mask. The resource is shared by all streams, and stays as it is.
func listedOf(r *consolev1.Resource, paths []string) (*consolev1.ListedResource, error) {
	if len(paths) > 0 {
		below := make([]string, len(paths))
		r.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			for i, path := range paths {
				below[i] = string(fd.Name()) + "." + path
			}
			return false // there is one
		})
		r = maskedCopy(r.ProtoReflect(), below).Interface().(*consolev1.Resource) //nolint:forcetypeassert // it is of the same type
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil {
		return nil, err
	}
	sum := fnv.New64a()
	_, _ = sum.Write(text) // never fails
	return &consolev1.ListedResource{Resource: r, Version: sum.Sum64()}, nil
}

// maskedCopy copies what paths lead to. Whole messages are shared with the original.
func maskedCopy(m protoreflect.Message, paths []string) protoreflect.Message {
	out := m.New()
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := string(fd.Name())
		if slices.Contains(paths, name) {
			out.Set(fd, v)
			return true
		}
		var below []string
		for _, p := range paths {
			if rest, ok := strings.CutPrefix(p, name+"."); ok {
				below = append(below, rest)
			}
		}
		if len(below) > 0 {
			out.Set(fd, protoreflect.ValueOfMessage(maskedCopy(v.Message(), below)))
		}
		return true
	})
	return out
}

// follow hands the events of a query to the stream until ctx ends.
func (w *queries) follow(ctx context.Context, q *consolev1.Query) error {
	resume := q.GetResumeToken()
	for {
		if resume == "" {
			page, err := w.lives.Events.List(ctx, q.GetEvents().GetFilter(), int(q.GetEvents().GetPageSize()), "")
			if err != nil {
				return err
			}
			whole := &consolev1.EventsAnswer{Whole: true, Events: page.Events, NextPageToken: page.Next, ResumeToken: page.Resume}
			if err := w.hand(ctx, q.GetName(), whole); err != nil {
				return err
			}
			resume = page.Resume
		}
		err := w.lives.Events.Follow(ctx, q.GetEvents().GetFilter(), resume, func(list []*consolev1.Event, token string) error {
			if len(list) == 0 {
				return nil // the stream has heartbeats of its own
			}
			return w.hand(ctx, q.GetName(), &consolev1.EventsAnswer{Events: list, ResumeToken: token})
		})
		if !errors.Is(err, event.ErrGone) {
			return err
		}
		resume = ""
	}
}

func (w *queries) hand(ctx context.Context, name string, answer *consolev1.EventsAnswer) error {
	select {
	case w.news <- eventNews{name, answer}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
