package gitcache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/durable"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/gitcache/internal/console"
	"fairlead.dev/services/gitcache/internal/handoff"
	"fairlead.dev/services/gitcache/internal/owner"
	"fairlead.dev/services/gitcache/internal/peers"
	"fairlead.dev/services/gitcache/internal/rpc"
	"fairlead.dev/services/gitcache/internal/shards"
	"fairlead.dev/services/gitcache/internal/standby"
)

// nameFile keeps the name of a replica that was given none: who comes back with its disk should own what
// is on it.
const nameFile = "replica"

// keptName is the replica's name from its folder, or a new one.
func keptName(dir string) (string, error) {
	path := filepath.Join(dir, nameFile)
	b, err := os.ReadFile(path)
	if name := strings.TrimSpace(string(b)); err == nil && name != "" {
		return name, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the replica's name: %w", err)
	}
	name := replicaName()
	if err := durable.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep the replica's name: %w", err)
	}
	return name, nil
}

func (s *Service) newPeers() *peers.Peers {
	return peers.New(peers.Config{
		Replica: s.cfg.Replica, URL: s.replica.Advertised, TTL: s.cfg.LeaseTTL, Heard: s.replica.Credential.Heard, Changed: s.reconsider,
		Load: func() peers.Load { return peers.Load{Owned: s.owner.Totals().Owned, Copies: s.standby.Count()} },
	}, peers.Deps{Coordinator: s.replica.Coordinator, Log: s.deps.Log, Client: s.replica.BytesTo(identity.ServiceGitcache)})
}

// reconsider looks again at who should own what: replicas came or went.
func (s *Service) reconsider() {
	s.owner.Reconsider()
	s.turned()
}

// turned looks again at what is to be copied and handed over: a source changed hands.
func (s *Service) turned() {
	s.standby.Reconsider()
	s.mover.Reconsider()
}

// newStandby puts together what keeps copies and gives them.
func (s *Service) newStandby() error {
	metrics, err := standby.NewMetrics(s.deps.Telemetry.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	s.copies = console.NewCopies(s.replica.Catalog)
	s.sender = &standby.Sender{Mirrors: s.mirrors, Builder: s.builder}
	s.standby = standby.New(s.cfg.Replica, standby.Deps{
		Placement: s.peers, Peers: s.peers, Owner: func() standby.Owner { return s.owner }, Catalog: s.copies,
		Mirrors: s.mirrors, Builder: s.builder, Store: s.store, Metrics: metrics, Tracer: s.tracer, Log: s.deps.Log,
	})
	return registerShards(s.deps.Telemetry.Registry, s.standby.Count, s.preferred)
}

// newMover puts together what hands sources over. The replicas must have been the same for most of the
// time that a dead one takes to be noticed.
func (s *Service) newMover() error {
	metrics, err := handoff.NewMetrics(s.deps.Telemetry.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	settle := handoff.DefaultSettle
	if s.cfg.LeaseTTL > 0 {
		settle = s.cfg.LeaseTTL * 2 / 3
	}
	s.mover = handoff.New(s.cfg.Replica, settle, s.peers.Settled, handoff.Deps{
		Peers: s.peers, Owner: s.owner, Mirrors: s.mirrors, Metrics: metrics, Tracer: s.tracer, Log: s.deps.Log,
	})
	s.replica.Leave = s.leave
	return nil
}

// leave hands everything over while it is still served.
func (s *Service) leave(ctx context.Context) {
	if s.peers.Alone() {
		return
	}
	if err := s.peers.Drain(ctx, true); err != nil {
		s.deps.Log.WarnContext(ctx, "coordination is down: nothing can be handed over; others take it when the leases run out", "err", err)
		return
	}
	s.mover.Leave(ctx)
}

// keeps tells whether a source belongs on this replica's disk. Until it is known who else lives all do.
func (s *Service) keeps(uid string) bool {
	return len(s.peers.Rank(uid)) == 0 || s.standby.Keeps(uid)
}

// preferred counts the sources that this replica should own.
func (s *Service) preferred() int {
	n := 0
	for uid := range s.copies.Names() {
		if s.peers.Place(uid) == 0 {
			n++
		}
	}
	return n
}

func (s *Service) shardMounts(trail connect.HandlerOption) []server.Mount {
	seen := &rpc.Shards{
		Ready: s.replica.Catalog.Ready, Rights: s.rights(), Replica: s.cfg.Replica, Kind: s.replica.Coordinator.Kind(), Store: s.pulse,
		Members: s.replica.Coordinator.Members,
		Shards: shards.New(shards.Deps{
			Replica: s.cfg.Replica, Sources: s.copies.Shards, Peers: s.peers, Holders: s.replica.Coordinator.Holders, Move: s.mover.Move, Kept: s.kept,
		}),
	}
	handed := &rpc.Handoffs{Ready: s.replica.Catalog.Ready, Sender: s.sender, Receiver: &handoff.Receiver{
		Known: func(uid string) bool { _, ok := s.owner.State(uid); return ok },
		Peers: s.peers, Owner: s.owner, Copies: s.standby,
	}}
	return []server.Mount{
		server.RPC(gitcachev1connect.ShardServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return gitcachev1connect.NewShardServiceHandler(seen, append(o, trail)...)
		}),
		server.RPC(gitcachev1connect.HandoffServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return gitcachev1connect.NewHandoffServiceHandler(handed, o...)
		}),
	}
}

func (s *Service) kept(uid string) bool {
	return slices.ContainsFunc(s.owner.Owned(), func(o owner.Owned) bool { return o.UID == uid && o.Kept })
}
