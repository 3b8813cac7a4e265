// Package distributor wires the distributor: the agents' API, at the edge of the content network.
package distributor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/compression"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/hubservice"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/smallframes"
	"fairlead.dev/platform/version"
	"fairlead.dev/services/distributor/internal/configs"
	"fairlead.dev/services/distributor/internal/edge"
	"fairlead.dev/services/distributor/internal/folders"
	"fairlead.dev/services/distributor/internal/hold"
	"fairlead.dev/services/distributor/internal/ledger"
	"fairlead.dev/services/distributor/internal/nudge"
	"fairlead.dev/services/distributor/internal/observe"
	"fairlead.dev/services/distributor/internal/plan"
	"fairlead.dev/services/distributor/internal/pressure"
	"fairlead.dev/services/distributor/internal/resolve"
	"fairlead.dev/services/distributor/internal/rpc"
	"fairlead.dev/services/distributor/internal/spans"
	"fairlead.dev/services/distributor/internal/status"
)

// presenceTTL is how long a replica that died is still listed.
const presenceTTL = 15 * time.Second

// Deps is what the distributor works with.
type Deps = hubservice.Deps

// Service is a distributor. New, then Listen, then Run.
type Service struct {
	cfg   Config
	deps  Deps
	began time.Time

	replica  *hubservice.Replica
	store    *artifact.Store
	plan     *plan.Plan
	ledger   *ledger.Ledger
	nudges   *nudge.Nudger
	reports  *status.Reports
	seen     *status.Seen
	views    *status.Views
	hub      *status.TruthReporter
	gate     *hold.Gate
	delivery *rpc.Delivery
	folders  *folders.Folders
	resolve  *resolve.Resolver
	metrics  *observe.Metrics
	tracer   trace.Tracer
	pressure pressure.Gauge

	// answers are what the resolver learned and the plan does not know yet.
	answers chan plan.Answer
}

// New puts a distributor together. New reads what DataDir holds and dials nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, deps: deps, began: time.Now(), answers: make(chan plan.Answer, maxAnswers),
		tracer: deps.Telemetry.Tracer.Tracer("fairlead.dev/services/distributor"),
	}
	s.nudges = nudge.New(s.pressure.Share)
	var err error
	s.replica, err = hubservice.New(identity.ServiceDistributor, cfg.Config, deps,
		consolev1.Kind_KIND_SOURCE, consolev1.Kind_KIND_CLUSTER, consolev1.Kind_KIND_SERVICE, consolev1.Kind_KIND_PROJECT,
		consolev1.Kind_KIND_GRANT, consolev1.Kind_KIND_ROLE, consolev1.Kind_KIND_AGENT_CONFIG, consolev1.Kind_KIND_VIEW_SET)
	if err != nil {
		return nil, err
	}
	if err := s.openState(); err != nil {
		return nil, err
	}
	console := consolev1connect.NewStatusServiceClient(s.replica.HTTP(), cfg.ConsoleURL, s.replica.Options()...)
	s.reports = status.NewReports(console, s.nudges, deps.Log)
	s.seen = status.NewSeen(console, deps.Log)
	s.views = status.NewViews(console)
	s.hub = status.NewTruthReporter(console, s.plan.Truth, deps.Log)
	s.gate = hold.New(console, s.replica.Catalog.Removals, s.plan.Has, deps.Log)
	origin := edge.New(edge.Config{
		Static: cfg.GitcacheURLs, Coordination: s.replica.Coordinator, RPC: s.replica.HTTP(), Options: s.replica.OptionsTo(identity.ServiceGitcache),
		Bytes: s.replica.BytesTo(identity.ServiceGitcache), Store: s.store, Log: deps.Log,
		Published: s.published, Unsigned: cfg.Unsigned.Accepted(),
	})
	s.folders = folders.New(folders.Deps{Console: console, Plan: s.plan, Origin: origin, Store: s.store, Log: deps.Log})
	s.resolve = resolve.New(s.plan, origin, s.learn, s.tracer, deps.Log)
	s.metrics, err = observe.New(deps.Telemetry.Registry, observe.State{
		Store: s.store.Stats, Plan: s.plan.Counts, Stale: s.replica.Catalog.Stale, Watchers: s.nudges.Watchers,
	})
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return s, s.serve(origin)
}

// published returns the gitcache that published the heads of a source last, and its epoch.
func (s *Service) published(source string) (owner string, epoch int64) {
	is, _ := s.replica.Catalog.Source(source)
	return is.GetStatus().GetOwner(), is.GetStatus().GetEpoch()
}

// openState opens what is on the disk.
func (s *Service) openState() (err error) {
	if s.store, err = artifact.OpenStore(s.replica.Dir("artifacts"), artifact.Options{MaxBytes: s.cfg.CacheBytes, Memory: unstoredBytes, Log: s.deps.Log}); err != nil {
		return err
	}
	var last plan.Memory
	if s.ledger, last, err = ledger.Open(s.replica.Dir("deliveries"), s.deps.Log); err != nil {
		return err
	}
	s.plan = plan.New(last)
	return nil
}

func (s *Service) serve(origin *edge.Edge) error {
	console := consolev1connect.NewConfigServiceClient(s.replica.HTTP(), s.cfg.ConsoleURL, s.replica.Options()...)
	s.delivery = rpc.NewDelivery(rpc.Deps{
		Plan: s.plan, Configs: configs.New(console, s.deps.Log), Stale: s.replica.Catalog.Stale,
		Confirmed: s.replica.Catalog.Confirmed, Hold: s.gate, Nudges: s.nudges, Reports: s.reports, Seen: s.seen,
		Metrics: s.metrics, NextPoll: s.cfg.NextPoll, Pressure: s.pressure.Share, Tickets: s.replica.Tickets(), Log: s.deps.Log,
	})
	details := rpc.NewDetails(
		consolev1connect.NewObjectServiceClient(s.replica.HTTP(), s.cfg.ConsoleURL, s.replica.Options()...), s.metrics.Away.WithLabelValues("details").Inc,
	)
	views := rpc.NewViews(s.views, s.metrics.Away.WithLabelValues("view").Inc)
	return s.replica.Serve(rpc.Policy(), s.ready,
		// Lingering: a stream says GoAway before it ends.
		server.RPC(deliveryv1connect.DeliveryServiceName, func(opts ...connect.HandlerOption) (string, http.Handler) {
			path, handler := deliveryv1connect.NewDeliveryServiceHandler(s.delivery, append(opts, compression.Handler())...)
			return path, smallframes.Handler(s.delivery.Front(handler))
		}).Lingering(),
		server.RPC(deliveryv1connect.DetailServiceName, func(opts ...connect.HandlerOption) (string, http.Handler) {
			path, handler := deliveryv1connect.NewDetailServiceHandler(details, append(opts, compression.Handler())...)
			return path, details.Front(handler)
		}),
		server.RPC(deliveryv1connect.ViewServiceName, func(opts ...connect.HandlerOption) (string, http.Handler) {
			path, handler := deliveryv1connect.NewViewServiceHandler(views, append(opts, compression.Handler())...)
			return path, views.Front(handler)
		}),
		server.HTTP(artifact.Path, s.artifacts(origin), identity.RoleAgent),
		s.registry(origin),
		server.HTTP("POST /v1/traces", spans.New(s.deps.Telemetry.Upload, time.Now), identity.RoleAgent),
	)
}

// ready says why agents should go elsewhere.
func (s *Service) ready() error {
	return errors.Join(s.replica.Credential.Ready(), s.plan.Ready())
}

// Listen binds the address, so that URL answers.
func (s *Service) Listen() error { return s.replica.Listen() }

// URL is where the distributor is reached on this machine.
func (s *Service) URL() string { return s.replica.URL() }

// Run serves until ctx ends. The work behind the listener ends only after the listener, so that reports that were taken
// in are handed on.
func (s *Service) Run(ctx context.Context) error {
	presence := coordination.Presence{
		Membership: s.replica.Coordinator, Group: identity.ServiceDistributor, Member: s.member, TTL: presenceTTL, Log: s.deps.Log,
	}
	err := s.replica.Run(ctx, s.follow, s.resolve.Run, s.reports.Run, s.seen.Run, s.views.Run, s.hub.Run, s.folders.Run,
		s.gate.Run, s.nudges.Run, s.pressure.Run, presence.Run)
	return errors.Join(err, s.store.Close(), s.ledger.Close())
}

func (s *Service) member() coordination.Member {
	url := s.replica.Advertised()
	return coordination.Member{ID: url, URL: url, Meta: map[string]string{
		coordination.MetaVersion: version.String(), coordination.MetaStarted: s.began.UTC().Format(time.RFC3339),
	}}
}
