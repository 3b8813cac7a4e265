package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/access"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/tunnel/internal/directory"
)

const (
	// askTime bounds a question to the other replicas.
	askTime = 3 * time.Second
	// lookEvery is how often a watch of sessions looks for changes; those of this replica's are seen sooner.
	lookEvery, lookSoon = 2 * time.Second, 200 * time.Millisecond
	// quietFor is the silence after which a watch says that it lives.
	quietFor = 15 * time.Second
	// atOnce bounds the sessions in one message.
	atOnce = 500
)

// ListReplicas implements TunnelServiceHandler.
func (s *service) ListReplicas(context.Context, *tunnelv1.ListReplicasRequest) (*tunnelv1.ListReplicasResponse, error) {
	resp := &tunnelv1.ListReplicasResponse{}
	if !s.Peers.Draining() {
		resp.ReplicaIds = append(resp.ReplicaIds, s.Peers.ID())
	}
	for _, r := range s.Peers.Others() {
		if !r.Draining {
			resp.ReplicaIds = append(resp.ReplicaIds, r.ID)
		}
	}
	return resp, nil
}

// ListSessions implements TunnelServiceHandler.
func (s *service) ListSessions(ctx context.Context, _ *tunnelv1.ListSessionsRequest) (*tunnelv1.ListSessionsResponse, error) {
	caller, _ := identity.FromContext(ctx)
	if caller.Has(identity.RoleTunnel) {
		return &tunnelv1.ListSessionsResponse{Sessions: s.own()}, nil // the calling replica asks everybody by itself
	}
	sees, err := s.sees(caller)
	if err != nil {
		return nil, err
	}
	resp := s.all(ctx)
	resp.Sessions = slices.DeleteFunc(resp.Sessions, func(one *tunnelv1.Session) bool { return !sees(one.GetCluster()) })
	return resp, nil
}

// sees returns who may see the sessions of which cluster: users what their grants say, by the grants of now, and the
// console all.
func (s *service) sees(caller identity.Identity) (func(cluster string) bool, error) {
	if caller.Has(identity.RoleConsole) {
		return func(string) bool { return true }, nil
	}
	if err := s.Catalog.Ready(); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("the tunnel does not know the grants yet: %w", err))
	}
	rules := access.Rules{Grants: s.Catalog.Grants(), Roles: s.Catalog.Roles()}
	if !rules.Any(caller) {
		return nil, connect.NewError(connect.CodePermissionDenied, errors.New(rules.May(caller, access.View, access.Target{Kind: access.Cluster}).Reason))
	}
	return func(name string) bool {
		at := access.Target{Kind: access.Cluster, Name: name, Cluster: name}
		if cluster, ok := s.Catalog.Cluster(name); ok {
			at.ClusterLabels = cluster.GetMetadata().GetLabels()
		}
		return rules.Allows(caller, access.View, at)
	}, nil
}

// all returns the sessions of all replicas.
func (s *service) all(ctx context.Context) *tunnelv1.ListSessionsResponse {
	resp := &tunnelv1.ListSessionsResponse{Sessions: s.own()}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var mu sync.Mutex // guards resp
	var asking sync.WaitGroup
	for _, r := range s.Peers.Others() {
		asking.Go(func() {
			sessions, err := s.ask(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			if resp.Sessions = append(resp.Sessions, sessions...); err != nil {
				resp.SilentReplicas = append(resp.SilentReplicas, r.URL)
			}
		})
	}
	asking.Wait()
	slices.Sort(resp.SilentReplicas)
	slices.SortFunc(resp.Sessions, func(a, b *tunnelv1.Session) int {
		return cmp.Or(cmp.Compare(a.GetCluster(), b.GetCluster()),
			a.GetConnectTime().AsTime().Compare(b.GetConnectTime().AsTime()), cmp.Compare(a.GetId(), b.GetId()))
	})
	return resp
}

// ask asks another replica for its sessions.
func (s *service) ask(ctx context.Context, r directory.Peer) ([]*tunnelv1.Session, error) {
	err := client.CheckPeer(r.URL)
	if err == nil {
		var resp *tunnelv1.ListSessionsResponse
		if resp, err = tunnelv1connect.NewTunnelServiceClient(s.HTTP, r.URL, s.Options...).ListSessions(identity.ForReplica(ctx, r.ID), &tunnelv1.ListSessionsRequest{}); err == nil {
			return resp.GetSessions(), nil
		}
	}
	s.Log.InfoContext(ctx, "replica does not say which sessions it has", "replica", r.ID, "url", r.URL, "err", err)
	return nil, err
}

// own are the sessions of this replica.
func (s *service) own() []*tunnelv1.Session {
	list := s.Sessions.List()
	sessions := make([]*tunnelv1.Session, 0, len(list))
	for _, one := range list {
		stats := one.Stats()
		sessions = append(sessions, &tunnelv1.Session{
			Id:              one.ID,
			Cluster:         one.Cluster,
			Replica:         s.Replica(),
			ConnectTime:     timestamppb.New(one.Since),
			Streams:         int32(min(stats.Streams, 1<<30)),
			RoundTripMicros: stats.RoundTrip.Microseconds(),
			AgentVersion:    one.Peer().Properties["version"],
			Carrier:         one.Carrier,
		})
	}
	return sessions
}

// WatchSessions implements TunnelServiceHandler.
func (s *service) WatchSessions(ctx context.Context, _ *tunnelv1.WatchSessionsRequest, out *connect.ServerStream[tunnelv1.WatchSessionsResponse]) error {
	view := make(view)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	said := time.Now()
	for first := true; ; first = false {
		news := s.Peers.News()
		now, err := s.ListSessions(ctx, nil)
		if err != nil {
			return err
		}
		for _, m := range view.update(now, first) {
			said = time.Now()
			if err := out.Send(m); err != nil {
				return err
			}
		}
		if time.Since(said) >= quietFor-lookEvery-askTime {
			said = time.Now()
			if err := out.Send(&tunnelv1.WatchSessionsResponse{SilentReplicas: now.GetSilentReplicas()}); err != nil {
				return err
			}
		}
		soon := time.After(lookSoon) // many changes at once are one look
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-server.Draining(ctx):
			return connect.NewError(connect.CodeUnavailable, errDraining)
		case <-news:
			<-soon
		case <-tick.C:
		}
	}
}

// view is what somebody who watches has been sent, by id.
type view map[string]*tunnelv1.Session

// update returns what to send.
func (v view) update(now *tunnelv1.ListSessionsResponse, first bool) (messages []*tunnelv1.WatchSessionsResponse) {
	var changed []*tunnelv1.Session
	live := make(map[string]bool, len(now.GetSessions()))
	for _, s := range now.GetSessions() {
		live[s.GetId()] = true
		if old := v[s.GetId()]; old == nil || old.GetStreams() != s.GetStreams() || old.GetAgentVersion() != s.GetAgentVersion() {
			v[s.GetId()] = s
			changed = append(changed, s)
		}
	}
	for part := range slices.Chunk(changed, atOnce) {
		messages = append(messages, &tunnelv1.WatchSessionsResponse{Sessions: part})
	}
	var ended []string
	for id, s := range v {
		if !live[id] && !slices.Contains(now.GetSilentReplicas(), s.GetReplica()) {
			ended = append(ended, id)
			delete(v, id)
		}
	}
	if len(ended) > 0 {
		messages = append(messages, &tunnelv1.WatchSessionsResponse{EndedIds: ended})
	}
	if first {
		messages = append(messages, &tunnelv1.WatchSessionsResponse{Complete: true})
	}
	for _, m := range messages {
		m.SilentReplicas = now.GetSilentReplicas()
	}
	return messages
}
