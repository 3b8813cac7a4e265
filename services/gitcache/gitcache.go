// Package gitcache wires the gitcache: the Git-aware origin of the content network.
package gitcache

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/gen/fairlead/artifact/v1/artifactv1connect"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/audit"
	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/platform/hubservice"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/pulse"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/gitcache/internal/build"
	"fairlead.dev/services/gitcache/internal/cloud"
	"fairlead.dev/services/gitcache/internal/console"
	"fairlead.dev/services/gitcache/internal/fetch"
	"fairlead.dev/services/gitcache/internal/handoff"
	"fairlead.dev/services/gitcache/internal/metrics"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/origin"
	"fairlead.dev/services/gitcache/internal/owner"
	"fairlead.dev/services/gitcache/internal/peers"
	"fairlead.dev/services/gitcache/internal/rpc"
	"fairlead.dev/services/gitcache/internal/standby"
	"fairlead.dev/services/gitcache/internal/upstream"
)

// refreshTopic carries uids of sources that should be polled now.
const refreshTopic = "gitcache/refresh"

// answeredTopic carries Git hosts that answer again after an outage.
const answeredTopic = "gitcache/answered"

// unstoredBytes of artifacts are held in memory while the disk is full or fails.
const unstoredBytes = 64 << 20

// Deps is what the gitcache works with.
type Deps = hubservice.Deps

// Service is a gitcache. New, then Listen, then Run.
type Service struct {
	cfg    Config
	deps   Deps
	tracer trace.Tracer

	replica *hubservice.Replica
	sources *console.Catalog
	origin  *origin.Origin // made by serve
	console *console.Console
	store   *artifact.Store
	mirrors *mirror.Mirrors
	fetcher *fetch.Fetchers
	clouds  *cloud.Logins
	builder *build.Builder
	peers   *peers.Peers
	pulse   *pulse.Pulse // of the coordinator
	owner   *owner.Owner
	copies  *console.Copies
	standby *standby.Standby
	sender  *standby.Sender
	mover   *handoff.Mover
}

// New puts a gitcache together. New reads what DataDir holds and dials nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, deps: deps, tracer: deps.Telemetry.Tracer.Tracer("fairlead.dev/services/gitcache")}
	var err error
	s.replica, err = hubservice.New(identity.ServiceGitcache, cfg.Config, deps,
		consolev1.Kind_KIND_SOURCE, consolev1.Kind_KIND_SERVICE, consolev1.Kind_KIND_SECRET,
		consolev1.Kind_KIND_GRANT, consolev1.Kind_KIND_ROLE, consolev1.Kind_KIND_CLUSTER) // grants, roles and clusters say who may see what
	if err != nil {
		return nil, err
	}
	if cfg.Replica == "" {
		if s.cfg.Replica, err = keptName(cfg.DataDir); err != nil {
			return nil, err
		}
	}
	s.replica.Credential.BeReplica(s.cfg.Replica)
	if err := s.openState(); err != nil {
		return nil, err
	}
	if err := s.newOwner(); err != nil {
		return nil, err
	}
	if err := registerStore(deps.Telemetry.Registry, s.store); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return s, s.serve()
}

// replicaName is unique, and tells people where the replica runs.
func replicaName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "gitcache"
	}
	return host + "-" + strings.ToLower(rand.Text()[:6])
}

// openState opens what is on the disk.
func (s *Service) openState() (err error) {
	s.sources = console.NewCatalog(s.replica.Catalog)
	s.console = console.NewConsole(s.replica.HTTP(), s.cfg.ConsoleURL, s.replica.Options()...)
	if s.store, err = artifact.OpenStore(s.replica.Dir("artifacts"), artifact.Options{MaxBytes: s.cfg.CacheBytes, Memory: unstoredBytes, Log: s.deps.Log}); err != nil {
		return err
	}
	if s.mirrors, err = mirror.Open(s.replica.Dir("mirrors"), s.deps.Log); err != nil {
		return err
	}
	if s.cfg.MeasureFree != nil {
		s.mirrors.MeasureFree(s.cfg.MeasureFree)
	}
	if s.cfg.MaxExpansion > 0 {
		s.mirrors.AllowExpansion(s.cfg.MaxExpansion)
	}
	if s.cfg.Git == fetch.GitBuiltin {
		s.mirrors.WithoutGit()
	}
	observe, err := registerBuilds(s.deps.Telemetry.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	s.builder, err = build.New(s.replica.Dir("built"), build.Deps{
		Mirrors: s.mirrors, Store: s.store, Tracer: s.tracer, Log: s.deps.Log, Observe: observe,
	})
	return err
}

func (s *Service) newOwner() error {
	s.peers = s.newPeers()
	s.pulse = pulse.New(s.replica.Coordinator.Ping)
	if err := s.newStandby(); err != nil {
		return err
	}
	counted, err := metrics.New(s.deps.Telemetry.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	allow, err := dialpolicy.Parse(s.cfg.AllowAddresses)
	if err != nil {
		return err
	}
	if s.fetcher, err = fetch.New(upstream.Options{
		Addresses: upstream.NewPolicy(allow), Git: s.cfg.Git, Dir: s.replica.Dir("fetch"),
	}); err != nil {
		return err
	}
	places := s.cfg.Clouds
	if places.Metadata == "" {
		places = cloud.Public()
	}
	s.clouds = cloud.New(cloud.Options{Places: places, Dial: upstream.NewPolicy(allow).Dial})
	s.owner = owner.New(owner.Config{Replica: s.cfg.Replica, TTL: s.cfg.LeaseTTL, Dir: s.replica.Dir("fetch")}, owner.Deps{
		Leases: s.replica.Coordinator, Placement: s.peers, Warm: s.standby.Warm, Turned: s.turned, Kept: s.forget,
		Secret: s.replica.Secret(), OpenPart: s.openPart, Catalog: s.sources, Fetcher: s.fetcher, Charts: s.fetcher,
		Artifacts: s.fetcher, Buckets: s.fetcher, Clouds: s.clouds, Signatures: s.fetcher, Mirrors: s.mirrors, Console: s.console,
		Answered: func(ctx context.Context, host string) error {
			return s.replica.Coordinator.Publish(ctx, answeredTopic, []byte(host))
		},
		Metrics: counted, Tracer: s.tracer, Log: s.deps.Log,
	})
	if err := owner.RegisterTotals(s.deps.Telemetry.Registry, s.owner); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return s.newMover()
}

// forget forgets sources whose mirrors were removed.
func (s *Service) forget() {
	s.builder.Keep(s.mirrors.Exists)
	s.sender.Keep(s.mirrors.Exists)
}

func (s *Service) serve() error {
	s.origin = origin.New(origin.Deps{
		Catalog: s.sources, Mirrors: s.mirrors, Builder: s.builder, Peers: s.peers,
		Owned:  s.owned,
		Epoch:  s.epoch,
		Repair: func(uid string) { s.owner.Repair(uid) },
		Keeps:  s.keeps,
	})
	artifacts := &rpc.Artifacts{Origin: s.origin, Ready: s.replica.Catalog.Ready}
	sources := s.newSources(s.origin)
	webhooks, err := s.newWebhooks()
	if err != nil {
		return err
	}
	trail := connect.WithInterceptors(rpc.Trail(s.replica.Audit))
	mounts := append(s.shardMounts(trail),
		server.RPC(artifactv1connect.ArtifactServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return artifactv1connect.NewArtifactServiceHandler(artifacts, o...)
		}),
		server.RPC(gitcachev1connect.SourceServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return gitcachev1connect.NewSourceServiceHandler(sources, append(o, trail)...)
		}),
		webhooks,
		server.HTTP(artifact.Path, s.bytes(), rpc.BytesRole),
	)
	return s.replica.Serve(rpc.Policy(), s.ready(s.origin), mounts...)
}

// bytes serves artifacts: to the hub's services, and to agents that no distributor gives them.
func (s *Service) bytes() http.Handler {
	refusals := &audit.Refusals{Recorder: s.replica.Audit, Log: s.deps.Log}
	return rpc.Bytes(s.store, rpc.Tickets(s.replica.Tickets(), refusals.Artifact), s.builder.Open, s.peers.Open)
}

// ready says why others should ask another replica. Only the catalog says which sources there should be.
func (s *Service) ready(from *origin.Origin) func() error {
	return func() error {
		if err := s.replica.Ready(); err != nil {
			return err
		}
		return from.Ready()
	}
}

// Listen binds the address, so that URL answers.
func (s *Service) Listen() error { return s.replica.Listen() }

// URL is where the gitcache is reached on this machine.
func (s *Service) URL() string { return s.replica.URL() }

// Run serves until ctx ends: first it hands over what others have copies of, then the listener drains,
// while the other leases are held and the catalog is followed; then leases are released, so that another
// replica goes on at once.
func (s *Service) Run(ctx context.Context) error {
	err := s.replica.Run(ctx, s.pulse.Run, s.peers.Run, s.listenForRefreshes, s.listenForAnswers, s.owner.Run, s.standby.Run, s.mover.Run)
	err = errors.Join(err, s.builder.Close(), s.store.Close())
	s.sources.Close()
	s.copies.Close()
	s.mirrors.Close()
	s.fetcher.Close()
	s.clouds.Close()
	return err
}

// listenForRefreshes polls what other replicas were asked to refresh and this one owns.
func (s *Service) listenForRefreshes(ctx context.Context) error {
	wishes, err := s.replica.Coordinator.Subscribe(ctx, refreshTopic)
	if err != nil {
		return fmt.Errorf("subscribe to refreshes: %w", err)
	}
	for uid := range wishes {
		s.owner.Refresh(string(uid))
	}
	return nil
}

// listenForAnswers polls sources of hosts that answer other replicas again.
func (s *Service) listenForAnswers(ctx context.Context) error {
	hosts, err := s.replica.Coordinator.Subscribe(ctx, answeredTopic)
	if err != nil {
		return fmt.Errorf("subscribe to hosts that answer again: %w", err)
	}
	var waking sync.WaitGroup // of as many hosts at most as the sources of this replica have
	defer waking.Wait()
	for host := range hosts {
		waking.Go(func() { s.owner.HostAnswered(ctx, string(host)) })
	}
	return nil
}
