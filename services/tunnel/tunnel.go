// Package tunnel wires the tunnel: agents' sessions on one side, people's Kubernetes requests on the other.
package tunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/tunnel/internal/observe"
	"fairlead.dev/services/tunnel/internal/proxy"
	"fairlead.dev/services/tunnel/internal/rpc"
	"fairlead.dev/services/tunnel/internal/session"
)

// Deps is what the tunnel works with.
type Deps struct {
	Log       *slog.Logger
	Telemetry *telemetry.Telemetry
	// Coordinator is shared with the other services of the process; nil: the one of Config.RedisURL.
	Coordinator coordination.Coordinator
}

// Service is a tunnel replica. New, then Listen, then Run.
type Service struct {
	cfg  Config
	deps Deps

	keeper   *identity.Keeper
	catalog  *catalog.Catalog
	sessions *session.Registry
	server   *server.Server
	client   *http.Client
	coord    coordination.Coordinator
	close    func() error // of what is ours
}

// New puts a tunnel together. It reads what DataDir holds and dials nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, deps: deps}
	var err error
	if s.client, err = client.New(client.Config{CAFile: cfg.HubCAFile, Tracer: deps.Telemetry.Tracer}); err != nil {
		return nil, err
	}
	if err := s.openState(); err != nil {
		return nil, err
	}
	s.coord, s.close = deps.Coordinator, func() error { return nil }
	if s.coord == nil {
		if s.coord, err = coordination.Open(cfg.RedisURL); err != nil {
			return nil, err
		}
		s.close = s.coord.Close
	}
	if s.server, err = s.newServer(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// openState opens what is on the disk.
func (s *Service) openState() (err error) {
	identities := consolev1connect.NewIdentityServiceClient(s.client, s.cfg.ConsoleURL, client.Options()...)
	s.keeper, err = identity.NewKeeper(identity.KeeperConfig{
		Dir: filepath.Join(s.cfg.DataDir, "identity"), Service: identity.ServiceTunnel, Secret: s.cfg.secret,
	}, identities, s.deps.Log)
	if err != nil {
		return err
	}
	catalogs := consolev1connect.NewCatalogServiceClient(s.client, s.cfg.ConsoleURL, append(client.Options(), client.WithToken(s.keeper))...)
	s.catalog, err = catalog.Open(filepath.Join(s.cfg.DataDir, "catalog"), catalogs, s.deps.Log)
	return err
}

func (s *Service) newServer() (*server.Server, error) {
	var metrics *observe.Metrics
	s.sessions = session.New(session.Deps{
		Membership: s.coord, Replica: s.replica, Log: s.deps.Log,
		Ended: func(err error) { metrics.SessionEnd(err) },
	})
	metrics, err := observe.New(s.deps.Telemetry.Registry, s.sessions.Counts)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	handler := proxy.New(proxy.Deps{Catalog: s.catalog, Sessions: s.sessions, Ended: metrics.Request, Log: s.deps.Log})
	deps := server.Deps{
		Name: identity.ServiceTunnel, Log: s.deps.Log, Telemetry: s.deps.Telemetry, Verifier: s.keeper, Ready: s.ready,
		Policy: identity.Policy{
			tunnelv1connect.TunnelServiceConnectProcedure:      identity.RoleAgent,
			tunnelv1connect.TunnelServiceListSessionsProcedure: identity.RoleUser | identity.RoleConsole,
		},
	}
	return server.New(s.cfg.Server, deps,
		// Lingering: sessions say GOAWAY and let requests finish before they end.
		server.RPC(tunnelv1connect.TunnelServiceName, func(opts ...connect.HandlerOption) (string, http.Handler) {
			return rpc.NewHandler(rpc.Deps{Sessions: s.sessions, Catalog: s.catalog, Replica: s.replica}, opts...)
		}).Lingering(),
		server.Raw(proxy.Prefix, handler, identity.RoleUser),
	)
}

// ready says why agents and users should go elsewhere.
func (s *Service) ready() error { return errors.Join(s.keeper.Ready(), s.catalog.Ready()) }

// Listen binds the address, so that URL answers.
func (s *Service) Listen() error { return s.server.Listen() }

// URL is where the tunnel is reached on this machine.
func (s *Service) URL() string { return s.server.URL() }

// replica is where the others reach this one.
func (s *Service) replica() string {
	if s.cfg.AdvertiseURL != "" {
		return s.cfg.AdvertiseURL
	}
	return s.URL()
}

// Run serves until ctx ends; then agents are told to go elsewhere, and requests that run have some
// seconds to finish.
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
	for _, run := range []func(context.Context) error{s.keeper.Run, s.catalog.Run, s.follow} {
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
	err = errors.Join(err, behind.Wait(), s.close())
	s.client.CloseIdleConnections()
	return err
}

// follow ends the sessions of clusters that left the catalog.
func (s *Service) follow(ctx context.Context) error {
	changes := s.catalog.Subscribe()
	defer changes.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changes.C():
		}
		if d := changes.Take(); d.All || len(d.Clusters) > 0 {
			s.sessions.Keep(func(cluster string) bool {
				_, ok := s.catalog.Cluster(cluster)
				return ok
			})
		}
	}
}
