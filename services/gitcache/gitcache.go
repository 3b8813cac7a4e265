// Package gitcache wires the gitcache: the Git-aware origin of the content network.
package gitcache

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/gen/fairlead/artifact/v1/artifactv1connect"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/gen/fairlead/gitcache/v1/gitcachev1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/gitcache/internal/build"
	"fairlead.dev/services/gitcache/internal/fetch"
	"fairlead.dev/services/gitcache/internal/hub"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/origin"
	"fairlead.dev/services/gitcache/internal/owner"
	"fairlead.dev/services/gitcache/internal/peers"
	"fairlead.dev/services/gitcache/internal/rpc"
)

// refreshTopic carries uids of sources that should be polled now.
const refreshTopic = "gitcache/refresh"

// Deps is what the gitcache works with.
type Deps struct {
	Log       *slog.Logger
	Telemetry *telemetry.Telemetry
	// Coordinator of the replicas. Nil: the one that Config.RedisURL names, which Run closes.
	Coordinator coordination.Coordinator
}

// Service is a gitcache. New, then Listen, then Run.
type Service struct {
	cfg    Config
	deps   Deps
	tracer trace.Tracer

	http    *http.Client
	keeper  *identity.Keeper
	catalog *catalog.Catalog
	sources *hub.Catalog
	store   *artifact.Store
	mirrors *mirror.Mirrors
	fetcher *fetch.HTTP
	builder *build.Builder
	peers   *peers.Peers
	owner   *owner.Owner
	server  *server.Server

	closeCoordinator func() error
}

// New puts a gitcache together. It reads what DataDir holds and dials nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Replica == "" {
		cfg.Replica = replicaName()
	}
	s := &Service{cfg: cfg, deps: deps, tracer: deps.Telemetry.Tracer.Tracer("fairlead.dev/services/gitcache")}
	if err := s.coordinate(); err != nil {
		return nil, err
	}
	var err error
	if s.http, err = client.New(client.Config{CAFile: cfg.HubCAFile, Tracer: deps.Telemetry.Tracer}); err != nil {
		return nil, err
	}
	if err := s.openState(); err != nil {
		return nil, err
	}
	if err := s.newOwner(); err != nil {
		return nil, err
	}
	if err := registerStore(deps.Telemetry.Registry, s.store); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	s.server, err = s.newServer()
	return s, err
}

func (s *Service) coordinate() (err error) {
	s.closeCoordinator = func() error { return nil }
	if s.deps.Coordinator != nil {
		return nil
	}
	if s.deps.Coordinator, err = coordination.Open(s.cfg.RedisURL); err != nil {
		return err
	}
	s.closeCoordinator = s.deps.Coordinator.Close
	return nil
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
	dir := func(name string) string { return filepath.Join(s.cfg.DataDir, name) }
	identities := consolev1connect.NewIdentityServiceClient(s.http, s.cfg.ConsoleURL, client.Options()...)
	s.keeper, err = identity.NewKeeper(identity.KeeperConfig{
		Dir: dir("identity"), Service: identity.ServiceGitcache, Secret: s.cfg.secret,
	}, identities, s.deps.Log)
	if err != nil {
		return err
	}
	catalogs := consolev1connect.NewCatalogServiceClient(s.http, s.cfg.ConsoleURL, s.authorized()...)
	if s.catalog, err = catalog.Open(dir("catalog"), catalogs, s.deps.Log); err != nil {
		return err
	}
	s.sources = hub.NewCatalog(s.catalog)
	if s.store, err = artifact.OpenStore(dir("artifacts"), artifact.Options{MaxBytes: s.cfg.CacheBytes, Log: s.deps.Log}); err != nil {
		return err
	}
	if s.mirrors, err = mirror.Open(dir("mirrors"), s.deps.Log); err != nil {
		return err
	}
	observe, err := registerBuilds(s.deps.Telemetry.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	s.builder, err = build.New(dir("built"), build.Deps{
		Mirrors: s.mirrors, Store: s.store, Tracer: s.tracer, Log: s.deps.Log, Observe: observe,
	})
	return err
}

func (s *Service) authorized() []connect.ClientOption {
	return append(client.Options(), client.WithToken(s.keeper))
}

func (s *Service) newOwner() error {
	s.peers = peers.New(peers.Config{Replica: s.cfg.Replica, URL: s.advertised}, peers.Deps{
		Coordinator: s.deps.Coordinator, Log: s.deps.Log,
		Client: &http.Client{Transport: client.Authorize(s.http.Transport, s.keeper), CheckRedirect: s.http.CheckRedirect},
	})
	metrics, err := owner.NewMetrics(s.deps.Telemetry.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	s.fetcher = fetch.NewHTTP(fetch.Options{})
	s.owner = owner.New(owner.Config{Replica: s.cfg.Replica}, owner.Deps{
		Leases: s.deps.Coordinator, Members: s.peers, Catalog: s.sources, Fetcher: s.fetcher, Mirrors: s.mirrors,
		Console: hub.NewConsole(s.http, s.cfg.ConsoleURL, s.authorized()...),
		Metrics: metrics, Tracer: s.tracer, Log: s.deps.Log,
	})
	if err := owner.RegisterTotals(s.deps.Telemetry.Registry, s.owner); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

func (s *Service) newServer() (*server.Server, error) {
	from := origin.New(origin.Deps{
		Catalog: s.sources, Mirrors: s.mirrors, Builder: s.builder, Peers: s.peers,
		Owned:  func(uid string) bool { state, _ := s.owner.State(uid); return state.Owned },
		Repair: func(uid string) { s.owner.Refresh(uid) },
	})
	artifacts := &rpc.Artifacts{Origin: from, Ready: s.catalog.Ready}
	sources := &rpc.Sources{
		Catalog: s.sources, Owner: s.owner, Replica: s.cfg.Replica, Holder: s.peers.Owner,
		Wake: func(ctx context.Context, uid string) error {
			return s.deps.Coordinator.Publish(ctx, refreshTopic, []byte(uid))
		},
	}
	deps := server.Deps{
		Name: identity.ServiceGitcache, Log: s.deps.Log, Telemetry: s.deps.Telemetry,
		Verifier: s.keeper, Policy: rpc.Policy(), Ready: s.ready,
	}
	return server.New(s.cfg.Server, deps,
		server.RPC(artifactv1connect.ArtifactServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return artifactv1connect.NewArtifactServiceHandler(artifacts, o...)
		}),
		server.RPC(gitcachev1connect.SourceServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return gitcachev1connect.NewSourceServiceHandler(sources, o...)
		}),
		server.HTTP(artifact.Path, rpc.Bytes(s.store, s.builder.Open, s.peers.Open), rpc.ArtifactRole),
	)
}

// ready says why others should ask another replica: without an identity or a catalog nothing can be
// answered. With both, from the disk, everything that was ever fetched can.
func (s *Service) ready() error { return errors.Join(s.keeper.Ready(), s.catalog.Ready()) }

// Listen binds the address, so that URL answers.
func (s *Service) Listen() error { return s.server.Listen() }

// URL is where the gitcache is reached on this machine.
func (s *Service) URL() string { return s.server.URL() }

func (s *Service) advertised() string {
	if s.cfg.AdvertiseURL != "" {
		return s.cfg.AdvertiseURL
	}
	return s.URL()
}

// Run serves until ctx ends: first the listener drains, while leases are held and the catalog is
// followed; then leases are released, so that another replica goes on at once.
func (s *Service) Run(ctx context.Context) error {
	if s.server.URL() == "" {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	front, cut := context.WithCancel(ctx)
	defer cut()
	var behind errgroup.Group
	for _, run := range []func(context.Context) error{
		s.keeper.Run, s.catalog.Run, s.peers.Run, s.listenForRefreshes, s.owner.Run,
	} {
		behind.Go(func() error {
			err := run(inner)
			if err != nil {
				cut() // none of them ends by itself
			}
			return err
		})
	}
	err := s.server.Run(front)
	stop()
	err = errors.Join(err, behind.Wait(), s.builder.Close(), s.closeCoordinator())
	s.sources.Close()
	s.mirrors.Close()
	s.fetcher.Close()
	s.http.CloseIdleConnections()
	return err
}

// listenForRefreshes polls what other replicas were asked to refresh and this one owns.
func (s *Service) listenForRefreshes(ctx context.Context) error {
	wishes, err := s.deps.Coordinator.Subscribe(ctx, refreshTopic)
	if err != nil {
		return fmt.Errorf("subscribe to refreshes: %w", err)
	}
	for uid := range wishes {
		s.owner.Refresh(string(uid))
	}
	return nil
}
