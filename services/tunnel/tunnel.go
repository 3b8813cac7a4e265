// Package tunnel wires the tunnel: agents' sessions on one side, people's Kubernetes requests on the other.
package tunnel

import (
	"context"
	"fmt"
	"net/http"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/replica"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/tunnel/internal/observe"
	"fairlead.dev/services/tunnel/internal/proxy"
	"fairlead.dev/services/tunnel/internal/rpc"
	"fairlead.dev/services/tunnel/internal/session"
)

// Deps is what the tunnel works with.
type Deps = replica.Deps

// Service is a tunnel replica. New, then Listen, then Run.
type Service struct {
	deps     Deps
	replica  *replica.Replica
	sessions *session.Registry
}

// New puts a tunnel together. It reads what DataDir holds and dials nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r, err := replica.New(identity.ServiceTunnel, cfg.Config, deps, consolev1.Kind_KIND_CLUSTER)
	if err != nil {
		return nil, err
	}
	s := &Service{deps: deps, replica: r}
	return s, s.serve()
}

func (s *Service) serve() error {
	var metrics *observe.Metrics
	s.sessions = session.New(session.Deps{
		Membership: s.replica.Coordinator, Replica: s.replica.Advertised, Log: s.deps.Log,
		Ended: func(err error) { metrics.SessionEnd(err) },
	})
	metrics, err := observe.New(s.deps.Telemetry.Registry, s.sessions.Counts)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	handler := proxy.New(proxy.Deps{Catalog: s.replica.Catalog, Sessions: s.sessions, Ended: metrics.Request, Log: s.deps.Log})
	policy := identity.Policy{
		tunnelv1connect.TunnelServiceConnectProcedure:      identity.RoleAgent,
		tunnelv1connect.TunnelServiceListSessionsProcedure: identity.RoleUser | identity.RoleConsole,
	}
	return s.replica.Serve(policy, s.replica.Ready,
		// Lingering: sessions say GOAWAY and let requests finish before they end.
		server.RPC(tunnelv1connect.TunnelServiceName, func(opts ...connect.HandlerOption) (string, http.Handler) {
			return rpc.NewHandler(rpc.Deps{Sessions: s.sessions, Catalog: s.replica.Catalog, Replica: s.replica.Advertised}, opts...)
		}).Lingering(),
		server.Raw(proxy.Prefix, handler, identity.RoleUser),
	)
}

// Listen binds the address, so that URL answers.
func (s *Service) Listen() error { return s.replica.Listen() }

// URL is where the tunnel is reached on this machine.
func (s *Service) URL() string { return s.replica.URL() }

// Run serves until ctx ends; then agents are told to go elsewhere, and requests that run have some
// seconds to finish.
func (s *Service) Run(ctx context.Context) error {
	return s.replica.Run(ctx, s.follow)
}

// follow ends the sessions of clusters that left the catalog.
func (s *Service) follow(ctx context.Context) error {
	changes := s.replica.Catalog.Subscribe()
	defer changes.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changes.C():
		}
		if d := changes.Take(); d.All || len(d.Clusters) > 0 {
			s.sessions.Keep(func(cluster string) bool {
				_, ok := s.replica.Catalog.Cluster(cluster)
				return ok
			})
		}
	}
}
