// Package distributor wires the distributor: the agents' API, at the edge of the content network.
package distributor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/distributor/internal/edge"
	"fairlead.dev/services/distributor/internal/ledger"
	"fairlead.dev/services/distributor/internal/nudge"
	"fairlead.dev/services/distributor/internal/observe"
	"fairlead.dev/services/distributor/internal/plan"
	"fairlead.dev/services/distributor/internal/resolve"
	"fairlead.dev/services/distributor/internal/rpc"
	"fairlead.dev/services/distributor/internal/status"
)

// presenceTTL is how long a replica that died is still listed.
const presenceTTL = 15 * time.Second

// Deps is what the distributor works with.
type Deps struct {
	Log       *slog.Logger
	Telemetry *telemetry.Telemetry
	// Coordinator is shared with the other services of the process; nil: the one of Config.RedisURL.
	Coordinator coordination.Coordinator
}

// Service is a distributor. New, then Listen, then Run.
type Service struct {
	cfg  Config
	deps Deps

	keeper  *identity.Keeper
	catalog *catalog.Catalog
	store   *artifact.Store
	plan    *plan.Plan
	ledger  *ledger.Ledger
	nudges  *nudge.Hub
	reports *status.Reports
	seen    *status.Seen
	hub     *status.Hub
	resolve *resolve.Resolver
	metrics *observe.Metrics
	server  *server.Server
	tracer  trace.Tracer
	client  *http.Client
	coord   coordination.Coordinator
	close   func() error // of what is ours

	// answers are what the resolver learned and the plan does not know yet.
	answers chan plan.Answer
}

// New puts a distributor together. It reads what DataDir holds and dials nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, deps: deps, nudges: nudge.New(), answers: make(chan plan.Answer, maxAnswers),
		tracer: deps.Telemetry.Tracer.Tracer("fairlead.dev/services/distributor"),
	}
	hc, err := client.New(client.Config{CAFile: cfg.HubCAFile, Tracer: deps.Telemetry.Tracer})
	if err != nil {
		return nil, err
	}
	s.client = hc
	if err := s.openCoordination(); err != nil {
		return nil, err
	}
	if err := s.openState(); err != nil {
		return nil, err
	}
	authorized := append(client.Options(), client.WithToken(s.keeper))
	console := consolev1connect.NewStatusServiceClient(hc, cfg.ConsoleURL, authorized...)
	s.reports = status.NewReports(console, deps.Log)
	s.seen = status.NewSeen(console, deps.Log)
	s.hub = status.NewHub(console, s.plan.Truth, deps.Log)
	origin := edge.New(edge.Config{
		Static: cfg.GitcacheURLs, Coordination: s.coord, RPC: hc, Options: authorized,
		Bytes: &http.Client{Transport: client.Authorize(hc.Transport, s.keeper)}, Store: s.store, Log: deps.Log,
	})
	s.resolve = resolve.New(s.plan, origin, s.learn, deps.Log)
	s.metrics, err = observe.New(deps.Telemetry.Registry, observe.State{
		Store: s.store.Stats, Plan: s.plan.Counts, Stale: s.catalog.Stale, Watchers: s.nudges.Watchers,
	})
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	s.server, err = s.newServer(origin)
	return s, err
}

func (s *Service) openCoordination() (err error) {
	s.coord, s.close = s.deps.Coordinator, func() error { return nil }
	if s.coord == nil {
		if s.coord, err = coordination.Open(s.cfg.RedisURL); err != nil {
			return err
		}
		s.close = s.coord.Close
	}
	return nil
}

// openState opens what is on the disk.
func (s *Service) openState() (err error) {
	dir := func(name string) string { return filepath.Join(s.cfg.DataDir, name) }
	identities := consolev1connect.NewIdentityServiceClient(s.client, s.cfg.ConsoleURL, client.Options()...)
	s.keeper, err = identity.NewKeeper(identity.KeeperConfig{
		Dir: dir("identity"), Service: identity.ServiceDistributor, Secret: s.cfg.secret,
	}, identities, s.deps.Log)
	if err != nil {
		return err
	}
	authorized := append(client.Options(), client.WithToken(s.keeper))
	catalogs := consolev1connect.NewCatalogServiceClient(s.client, s.cfg.ConsoleURL, authorized...)
	if s.catalog, err = catalog.Open(dir("catalog"), catalogs, s.deps.Log); err != nil {
		return err
	}
	if s.store, err = artifact.OpenStore(dir("artifacts"), artifact.Options{MaxBytes: s.cfg.CacheBytes, Log: s.deps.Log}); err != nil {
		return err
	}
	var last []*plan.Delivery
	if s.ledger, last, err = ledger.Open(dir("deliveries"), s.deps.Log); err != nil {
		return err
	}
	s.plan = plan.New(last)
	return nil
}

func (s *Service) newServer(origin *edge.Edge) (*server.Server, error) {
	delivery := rpc.NewDelivery(rpc.Deps{
		Plan: s.plan, Stale: s.catalog.Stale, Nudges: s.nudges, Reports: s.reports, Seen: s.seen, Metrics: s.metrics, NextPoll: s.cfg.NextPoll,
	})
	deps := server.Deps{
		Name: identity.ServiceDistributor, Log: s.deps.Log, Telemetry: s.deps.Telemetry, Verifier: s.keeper, Ready: s.ready,
		Policy: identity.Policy{
			deliveryv1connect.DeliveryServiceSyncProcedure:   identity.RoleAgent,
			deliveryv1connect.DeliveryServiceWatchProcedure:  identity.RoleAgent,
			deliveryv1connect.DeliveryServiceReportProcedure: identity.RoleAgent,
		},
	}
	return server.New(s.cfg.Server, deps,
		// Lingering: a stream says GoAway before it ends.
		server.RPC(deliveryv1connect.DeliveryServiceName, func(opts ...connect.HandlerOption) (string, http.Handler) {
			return deliveryv1connect.NewDeliveryServiceHandler(delivery, opts...)
		}).Lingering(),
		server.HTTP(artifact.Path, s.store.FillHandler(delivery.Authorize, origin.Fetch), identity.RoleAgent),
	)
}

// ready says why agents should go elsewhere.
func (s *Service) ready() error {
	return errors.Join(s.keeper.Ready(), s.plan.Ready())
}

// Listen binds the address, so that URL answers.
func (s *Service) Listen() error { return s.server.Listen() }

// URL is where the distributor is reached on this machine.
func (s *Service) URL() string { return s.server.URL() }

// Run serves until ctx ends. What goes on behind the listener ends only when the listener has, so
// that reports that were taken in are handed on.
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
	presence := coordination.Presence{
		Membership: s.coord, Group: identity.ServiceDistributor, Member: s.member, TTL: presenceTTL, Log: s.deps.Log,
	}
	for _, run := range []func(context.Context) error{
		s.keeper.Run, s.catalog.Run, s.follow, s.resolve.Run, s.reports.Run, s.seen.Run, s.hub.Run, presence.Run,
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
	err = errors.Join(err, behind.Wait(), s.store.Close(), s.ledger.Close(), s.close())
	s.client.CloseIdleConnections()
	return err
}

func (s *Service) member() coordination.Member {
	url := s.cfg.AdvertiseURL
	if url == "" {
		url = s.URL()
	}
	return coordination.Member{ID: url, URL: url}
}
