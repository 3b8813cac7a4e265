// Package tunnel wires the tunnel: agents' sessions on one side, people's Kubernetes requests on the other.
package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/container"
	"fairlead.dev/platform/hubservice"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/server"
	"fairlead.dev/services/tunnel/internal/directory"
	"fairlead.dev/services/tunnel/internal/observe"
	"fairlead.dev/services/tunnel/internal/proxy"
	"fairlead.dev/services/tunnel/internal/rpc"
	"fairlead.dev/services/tunnel/internal/session"
	"fairlead.dev/services/tunnel/internal/uses"
)

// Deps is what the tunnel works with.
type Deps = hubservice.Deps

// Service is a tunnel replica. New, then Listen, then Run.
type Service struct {
	deps     Deps
	replica  *hubservice.Replica
	sessions *session.Registry
	peers    *directory.Directory
	proxy    *proxy.Handler
	uses     *uses.Reporter
	console  string // URL
}

// maxHeaderBytes has room for twice the target that a stream takes, so that one which is too long gets a Status.
const maxHeaderBytes = 2 * muxhttp.MaxTarget

// New puts a tunnel together. New reads what DataDir holds and dials nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Server.MaxHeaderBytes = maxHeaderBytes
	r, err := hubservice.New(identity.ServiceTunnel, cfg.Config, deps, consolev1.Kind_KIND_CLUSTER,
		consolev1.Kind_KIND_GRANT, consolev1.Kind_KIND_ROLE, consolev1.Kind_KIND_PROJECT)
	if err != nil {
		return nil, err
	}
	console := consolev1connect.NewStatusServiceClient(r.HTTP(), cfg.ConsoleURL, r.Options()...)
	s := &Service{deps: deps, replica: r, uses: uses.New(console, deps.Log), console: cfg.ConsoleURL}
	r.Leave, r.LeaveLimit = s.leave, cfg.DrainTimeout
	return s, s.serve()
}

func (s *Service) serve() error {
	var metrics *observe.Metrics
	s.peers = directory.New(directory.Deps{Coordinator: s.replica.Coordinator, URL: s.replica.Advertised, Log: s.deps.Log})
	s.replica.Credential.BeReplica(s.peers.ID())
	s.sessions = session.New(session.Deps{
		Directory: s.peers, Properties: s.properties, Memory: container.MemoryLimit(os.DirFS("/")), Log: s.deps.Log,
		Ended: func(err error) { metrics.SessionEnd(err) },
	})
	metrics, err := observe.New(s.deps.Telemetry.Registry, s.sessions.Counts)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	s.proxy = proxy.New(proxy.Deps{
		Catalog: s.replica.Catalog, Sessions: s.sessions, Peers: s.peers, Relay: s.replica.Relay(),
		Ended: metrics.Request, Handed: metrics.Handed, Taken: metrics.Taken,
		Audit: s.replica.Audit, Log: s.deps.Log,
		Recordings: consolev1connect.NewRecordingServiceClient(s.replica.HTTP(), s.console, s.replica.Options()...),
		Rights: func(token string) proxy.Rights {
			return consolev1connect.NewAccessServiceClient(s.replica.HTTP(), s.console,
				append(client.Options(), client.WithToken(identity.StaticToken(token)))...)
		},
	})
	deps := rpc.Deps{
		Sessions: s.sessions, Began: s.uses.Note, Catalog: s.replica.Catalog, Peers: s.peers, Replica: s.replica.Advertised,
		HTTP: s.replica.HTTP(), Options: s.replica.OptionsTo(identity.ServiceTunnel), Log: s.deps.Log,
	}
	mounts := []server.Mount{
		// Lingering: sessions say GOAWAY and let requests finish before they end.
		server.RPC(tunnelv1connect.TunnelServiceName, func(opts ...connect.HandlerOption) (string, http.Handler) {
			return rpc.NewHandler(deps, opts...)
		}).Lingering(),
		server.HTTP(rpc.WebSocketPattern, rpc.NewWebSocket(deps), identity.RoleAgent),
		server.Raw(proxy.Prefix, s.proxy, identity.RoleUser).Paged(proxy.Page),
		server.Raw(proxy.RelayPrefix, s.proxy.Relayed(), identity.RoleTunnel),
	}
	for _, root := range kubehttp.APIRoots() {
		nowhere := http.HandlerFunc(kubehttp.NoCluster)
		mounts = append(mounts, server.HTTP(root, nowhere, identity.RoleUser), server.HTTP(root+"/", nowhere, identity.RoleUser))
	}
	return s.replica.Serve(rpc.Policy(), s.ready, mounts...)
}

// properties are what agents are told: to tell replicas apart, and for logs.
func (s *Service) properties() map[string]string {
	url := s.replica.Advertised()
	return map[string]string{"replica": url[:min(len(url), 127)], "replica_id": s.peers.ID()}
}

// ready says why others should ask another replica.
func (s *Service) ready() error {
	if s.peers.Draining() {
		return errors.New("this replica is going away")
	}
	return s.replica.Ready()
}

// leave sends agents and watches to other replicas, and lets what runs finish.
func (s *Service) leave(ctx context.Context) {
	s.peers.Drain(ctx)
	var leaving sync.WaitGroup
	leaving.Go(func() { s.sessions.Drain(ctx) })
	leaving.Go(func() { s.proxy.Drain(ctx) })
	leaving.Wait()
}

// Listen binds the address, so that URL answers.
func (s *Service) Listen() error { return s.replica.Listen() }

// URL is where the tunnel is reached on this machine.
func (s *Service) URL() string { return s.replica.URL() }

// Run serves until ctx ends; then agents are told to go elsewhere, and requests that run have some
// seconds to finish.
func (s *Service) Run(ctx context.Context) error {
	return s.replica.Run(ctx, s.follow, s.peers.Run, s.uses.Run)
}

// follow ends the sessions of clusters that left the catalog, and requests when the right to them ends.
func (s *Service) follow(ctx context.Context) error {
	changes := s.replica.Catalog.Subscribe()
	defer changes.Close()
	judge := time.NewTimer(0)
	defer judge.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-judge.C:
			s.judge(judge)
			continue
		case <-changes.C():
		}
		d := changes.Take()
		if d.All || d.Rights || len(d.Clusters) > 0 {
			s.judge(judge)
		}
		if d.All || len(d.Clusters) > 0 {
			s.sessions.Keep(func(cluster string) bool {
				_, ok := s.replica.Catalog.Cluster(cluster)
				return ok
			})
		}
	}
}

// judgeAnyway is how long the next look at the rights to what runs waits at most: the clock may be set.
const judgeAnyway = 10 * time.Second

// judge ends requests that nobody may make any more, and sets the timer of the next look.
func (s *Service) judge(next *time.Timer) {
	wait := judgeAnyway
	if again := s.proxy.Judge(); !again.IsZero() {
		wait = min(wait, max(time.Until(again), 0))
	}
	next.Reset(wait)
}

// Resting says that the tunnel's memory is mostly that of sessions at rest.
func (s *Service) Resting() {}
