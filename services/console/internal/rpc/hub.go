package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/feed"
	"fairlead.dev/services/console/internal/identity"
	"fairlead.dev/services/console/internal/intake"
	"fairlead.dev/services/console/internal/kinds/agentconfig"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/guard"
)

type heads struct{ Deps }

func (s *heads) ClaimSource(ctx context.Context, req *consolev1.ClaimSourceRequest) (*consolev1.ClaimSourceResponse, error) {
	status, err := s.Intake.ClaimSource(ctx, call.Actor(ctx), req.GetSource(), req.GetUid(), req.GetOwner())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.ClaimSourceResponse{
		Epoch: status.Epoch, Heads: descriptor.Each(status.Heads, encodeHead), Problem: encodeProblem(status.Problem),
	}, nil
}

func (s *heads) PublishHeads(ctx context.Context, req *consolev1.PublishHeadsRequest) (*consolev1.PublishHeadsResponse, error) {
	withoutZeros(req)
	p := intake.Publication{Epoch: req.GetEpoch(), Heads: descriptor.Each(req.GetHeads(), decodeHead), Problem: decodeProblem(req.GetProblem())}
	if err := s.Intake.PublishHeads(ctx, call.Actor(ctx), req.GetSource(), req.GetUid(), p); err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.PublishHeadsResponse{}, nil
}

type statuses struct{ Deps }

func (s *statuses) RecordReports(ctx context.Context, req *consolev1.RecordReportsRequest) (*consolev1.RecordReportsResponse, error) {
	withoutZeros(req)
	acks, err := s.Intake.RecordReports(ctx, descriptor.Each(req.GetClusters(), func(c *consolev1.ClusterReports) intake.ClusterReports {
		return intake.ClusterReports{Cluster: c.GetCluster(), Reports: descriptor.Each(c.GetReports(), decodeReport)}
	}))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.RecordReportsResponse{Clusters: descriptor.Each(acks, encodeAcks)}, nil
}

func encodeAcks(acks map[string]uint64) *consolev1.ClusterAcknowledgements {
	out := &consolev1.ClusterAcknowledgements{}
	for _, service := range slices.Sorted(maps.Keys(acks)) {
		out.Acknowledged = append(out.Acknowledged, &deliveryv1.Acknowledgement{Service: service, Sequence: acks[service]})
	}
	return out
}

func (s *statuses) RecordHub(ctx context.Context, req *consolev1.RecordHubRequest) (*consolev1.RecordHubResponse, error) {
	withoutZeros(req)
	err := s.Intake.RecordHub(ctx, descriptor.Each(req.GetServices(), func(h *consolev1.ServiceHub) intake.ServiceHub {
		hub := decodeHub(h.GetHub())
		hub.Source, hub.Ref = h.GetSourceUid(), h.GetRef()
		return intake.ServiceHub{Service: h.GetService(), UID: h.GetUid(), Hub: hub, Revision: h.GetServiceRevision()}
	}), descriptor.Each(req.GetRefs(), func(r *consolev1.RefHub) state.RefHub {
		return state.RefHub{Source: r.GetSourceUid(), Ref: r.GetRef(), Revision: decodeRevision(r.GetRevision()), ResolveTime: descriptor.Moment(r.GetResolveTime())}
	}))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.RecordHubResponse{}, nil
}

func (s *statuses) RecordSeen(ctx context.Context, req *consolev1.RecordSeenRequest) (*consolev1.RecordSeenResponse, error) {
	err := s.Intake.RecordSeen(ctx, descriptor.Each(req.GetClusters(), func(c *consolev1.ClusterSeen) intake.ClusterSeen {
		agent := state.AgentInfo{Version: c.GetAgent().GetVersion(), KubernetesVersion: c.GetAgent().GetKubernetesVersion()}
		agent.ClusterProblem = c.GetAgent().GetClusterProblem()
		agent.Tests = slices.Contains(c.GetAgent().GetCapabilities(), deliveryv1.AgentCapability_AGENT_CAPABILITY_TESTS)
		agent.Windows = slices.Contains(c.GetAgent().GetCapabilities(), deliveryv1.AgentCapability_AGENT_CAPABILITY_WINDOWS)
		agent.Views = slices.Contains(c.GetAgent().GetCapabilities(), deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEWS)
		agent.ViewSets = slices.Contains(c.GetAgent().GetCapabilities(), deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEW_SETS)
		agent.Configurable = slices.Contains(c.GetAgent().GetCapabilities(), deliveryv1.AgentCapability_AGENT_CAPABILITY_CONFIG)
		agent.Config = agentconfig.Said(c.GetAgentConfig())
		agent.ClockSkew = c.GetClockSkew().AsDuration()
		if c.GetAgent() != nil {
			agent.NextPoll = descriptor.Moment(c.GetNextPollTime())
		}
		for _, token := range c.GetTokens() {
			agent.Unbound = agent.Unbound || token.GetUnbound()
		}
		return intake.ClusterSeen{Cluster: c.GetCluster(), Time: descriptor.Moment(c.GetTime()), Agent: agent, Lost: c.GetLost()}
	}))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	var uses []identity.TokenUse
	for _, c := range req.GetClusters() {
		for _, token := range c.GetTokens() {
			uses = append(uses, identity.TokenUse{Cluster: c.GetCluster(), TokenID: token.GetId(), Time: descriptor.Moment(c.GetTime())})
		}
	}
	if err := s.Authority.Used(ctx, call.Who(ctx), uses); err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.RecordSeenResponse{ViewsWanted: s.Views.Lost(req.GetClusters())}, nil
}

func (s *statuses) RecordViews(ctx context.Context, req *consolev1.RecordViewsRequest) (*consolev1.RecordViewsResponse, error) {
	answers, err := s.Views.Record(ctx, req.GetClusters())
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.RecordViewsResponse{Clusters: answers}, nil
}

func (s *statuses) RecordTokenUses(ctx context.Context, req *consolev1.RecordTokenUsesRequest) (*consolev1.RecordTokenUsesResponse, error) {
	err := s.Authority.Used(ctx, call.Who(ctx), descriptor.Each(req.GetUses(), func(u *consolev1.AgentTokenUse) identity.TokenUse {
		return identity.TokenUse{Cluster: u.GetCluster(), TokenID: u.GetToken(), Time: descriptor.Moment(u.GetTime())}
	}))
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.RecordTokenUsesResponse{}, nil
}

func (s *statuses) RecordHeld(ctx context.Context, req *consolev1.RecordHeldRequest) (*consolev1.RecordHeldResponse, error) {
	held := make(map[string][]string, len(req.GetClusters()))
	for _, c := range req.GetClusters() {
		held[c.GetCluster()] = c.GetServices()
	}
	if err := s.Removals.Record(ctx, held); err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.RecordHeldResponse{}, nil
}

// removals are what a follower is told of them; told is what it was told last, or nil. Which clusters wait is read now:
// of another confirmation it would be about something else.
func (s *followers) removals(ctx context.Context, r guard.Removals, told *consolev1.Removals) (*consolev1.Removals, error) {
	out := &consolev1.Removals{Held: !r.HoldTime.IsZero(), Confirmation: r.Confirmation}
	if out.GetHeld() {
		return out, nil
	}
	now, err := s.Removals.State(ctx)
	switch {
	case err != nil && told == nil:
		return nil, err
	case err != nil: // the stream outlives a database that is away for a while
		if told.GetConfirmation() == r.Confirmation {
			out.Clusters = told.GetClusters()
		}
	case now.Confirmation == r.Confirmation:
		out.Clusters = descriptor.Each(now.Clusters, func(h guard.Held) string { return h.Cluster })
	}
	return out, nil
}

// messageBytes is how much of a catalog goes into one message: far below what clients accept, and
// large enough that a snapshot is a few messages.
const messageBytes = 1 << 20

type followers struct{ Deps }

func (s *followers) Watch(ctx context.Context, req *consolev1.WatchRequest, stream *connect.ServerStream[consolev1.WatchResponse]) error {
	send := func(m *consolev1.WatchResponse) error {
		return call.Bounded(ctx, call.SendTimeout, func() error { return stream.Send(m) })
	}
	kinds, err := s.followed(req.GetKinds())
	if err != nil {
		return err
	}
	var told *consolev1.Removals
	err = s.Hub.Stream(ctx, &feed.Follower{
		Token: req.GetResumeToken(), Kinds: kinds,
		Send: func(e feed.Event) error {
			if e.Kind != feed.Delta {
				removals, err := s.removals(ctx, e.Removals, told)
				if err != nil {
					return err
				}
				told = removals
			}
			return s.sendEvent(e, req.GetKinds(), told, send)
		},
	})
	if errors.Is(ctx.Err(), context.Canceled) {
		// The caller went, or the console drains: either way there is nothing to find in a log.
		return connect.NewError(connect.CodeUnavailable, feed.ErrStopped)
	}
	return s.fail(ctx, err)
}

// followed is what a follower is told of. Resources that only people read are in no change.
func (s *followers) followed(kinds []consolev1.Kind) ([]store.Kind, error) {
	var known []store.Kind
	for _, of := range s.Kinds {
		if of.Follows() && (len(kinds) == 0 || slices.Contains(kinds, of.Of().Number())) {
			known = append(known, of.Stored())
		}
	}
	if known == nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("kinds: the console knows none of them: is it older than the caller?"))
	}
	return known, nil
}

// sendEvent sends an event as one or more messages.
func (s *followers) sendEvent(e feed.Event, kinds []consolev1.Kind, removals *consolev1.Removals, send func(*consolev1.WatchResponse) error) error {
	switch e.Kind {
	case feed.Heartbeat:
		return send(&consolev1.WatchResponse{ResumeToken: e.Token, Revision: e.Seq, Removals: removals, Event: &consolev1.WatchResponse_Heartbeat{Heartbeat: &consolev1.Heartbeat{}}})
	case feed.Snapshot:
		if err := send(&consolev1.WatchResponse{Event: &consolev1.WatchResponse_SnapshotBegin{SnapshotBegin: &consolev1.SnapshotBegin{Kinds: kinds}}}); err != nil {
			return err
		}
		if err := s.sendChanges(e.Changes, func(store.Change) (string, int64) { return "", 0 }, send); err != nil {
			return err
		}
		return send(&consolev1.WatchResponse{ResumeToken: e.Token, Revision: e.Seq, Removals: removals, Event: &consolev1.WatchResponse_SnapshotEnd{SnapshotEnd: &consolev1.SnapshotEnd{}}})
	default:
		last := e.Changes[len(e.Changes)-1].Cursor
		return s.sendChanges(e.Changes, func(c store.Change) (string, int64) {
			if c.Cursor == last {
				return e.Token, e.Seq // the stream may be further, by changes that are old already, or not wanted
			}
			return feed.Token(c.Cursor), c.Cursor.Seq
		}, send)
	}
}

// sendChanges splits changes over messages, each with the token and the number of its last change.
func (s *followers) sendChanges(changes []store.Change, place func(store.Change) (string, int64), send func(*consolev1.WatchResponse) error) error {
	var part []*consolev1.Change
	size := 0
	for i, stored := range changes {
		change, err := s.change(stored)
		if err != nil {
			return err
		}
		part, size = append(part, change), size+proto.Size(change)
		if size < messageBytes && i < len(changes)-1 {
			continue
		}
		m := &consolev1.WatchResponse{Event: &consolev1.WatchResponse_Changes{Changes: &consolev1.Changes{Changes: part}}}
		m.ResumeToken, m.Revision = place(stored)
		if err := send(m); err != nil {
			return err
		}
		part, size = nil, 0
	}
	return nil
}

// change is what hub services are told of a change.
func (s *followers) change(c store.Change) (*consolev1.Change, error) {
	if c.Deleted {
		return &consolev1.Change{Change: &consolev1.Change_Deleted{Deleted: &consolev1.Deleted{Kind: descriptor.Number(c.Kind), Name: c.Name, Uid: c.UID}}}, nil
	}
	of := s.Kinds.Stored(c.Kind)
	if of == nil || !of.Follows() {
		return nil, fmt.Errorf("hub services are not told of %s %q", c.Kind, c.Name)
	}
	m, err := of.Followed(c)
	if err != nil {
		return nil, err
	}
	out := (&consolev1.Change{}).ProtoReflect()
	fields := out.Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); fd.Message() == m.ProtoReflect().Descriptor() {
			out.Set(fd, protoreflect.ValueOfMessage(m.ProtoReflect()))
			return out.Interface().(*consolev1.Change), nil //nolint:forcetypeassert // it is of the same type
		}
	}
	return nil, fmt.Errorf("tell hub services of %s %q: Change in proto/ has no field for the kind", c.Kind, c.Name)
}
