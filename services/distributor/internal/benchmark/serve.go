package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/delivery"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/process"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/distributor/internal/hold"
	"fairlead.dev/services/distributor/internal/nudge"
	"fairlead.dev/services/distributor/internal/observe"
	"fairlead.dev/services/distributor/internal/plan"
	"fairlead.dev/services/distributor/internal/rpc"
	"fairlead.dev/services/distributor/internal/status"
)

const (
	clusters  = 1000
	services  = 30
	namespace = "default"
)

func clusterName(i int) string { return fmt.Sprintf("edge-%05d", i) }

func serviceName(cluster, j int) string { return fmt.Sprintf("s%02d-%s", j, clusterName(cluster)) }

func folder(j int) string { return fmt.Sprintf("apps/s%02d", j) }

func content(path string) artifact.Digest {
	sum := sha256.Sum256([]byte(path))
	return artifact.SumDigest(sum[:])
}

// The environment of a server.
const (
	envKeys = "FAIRLEAD_BENCHMARK_KEYS" // public ones, as JSON
	envCert = "FAIRLEAD_BENCHMARK_CERT" // file; none: clear text
	envKey  = "FAIRLEAD_BENCHMARK_KEY"
)

// setDigest is over all that a cluster has.
func setDigest(cluster int) string {
	have := map[string]string{}
	for j := range services {
		name, path := serviceName(cluster, j), folder(j)
		have[name] = delivery.ServiceDigest(delivery.Service{Name: name, Namespace: namespace, Path: path, Artifact: string(content(path))})
	}
	return delivery.SetDigest(have)
}

// serve says its URL in a line, and serves until ctx ends. The process gives memory back when it is asked to.
func serve(ctx context.Context, what string, stdout io.Writer) error {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			debug.FreeOSMemory()
		}
	}()
	switch what {
	case "empty":
		return serveEmpty(ctx, stdout)
	case "delivery":
		return serveDelivery(ctx, stdout)
	}
	return fmt.Errorf("no server %q", what)
}

// empty answers as soon as it can, to anybody.
type empty struct {
	deliveryv1connect.UnimplementedDeliveryServiceHandler
}

func (empty) Watch(ctx context.Context, _ *deliveryv1.WatchRequest, out *connect.ServerStream[deliveryv1.WatchResponse]) error {
	if err := out.Send(&deliveryv1.WatchResponse{}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (empty) Sync(context.Context, *deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
	return &deliveryv1.SyncResponse{}, nil
}

func serveEmpty(ctx context.Context, stdout io.Writer) error {
	mux := http.NewServeMux()
	mux.Handle(deliveryv1connect.NewDeliveryServiceHandler(empty{}))
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: mux, Protocols: protocols, ReadHeaderTimeout: time.Minute}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	cert, scheme, run := os.Getenv(envCert), "http://", s.Serve
	if cert != "" {
		scheme, run = "https://", func(l net.Listener) error { return s.ServeTLS(l, cert, os.Getenv(envKey)) }
	}
	fmt.Fprintln(stdout, scheme+l.Addr().String())
	if err := run(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// serveDelivery is the distributor's own listener and handler, over a catalog that is there at once.
func serveDelivery(ctx context.Context, stdout io.Writer) error {
	tokens, err := identity.NewBundleVerifier(identity.Bundle{Keys: []byte(os.Getenv(envKeys))})
	if err != nil {
		return err
	}
	verifier := struct {
		*identity.BundleVerifier
		*identity.Proofs
	}{tokens, &identity.Proofs{Audience: identity.ServiceDistributor}}
	tel, flush, err := telemetry.Setup(ctx, telemetry.Config{Service: "distributor"})
	if err != nil {
		return err
	}
	defer func() { _ = flush(context.WithoutCancel(ctx)) }()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	p, hub, console := wholePlan(), nudge.New(func() float64 { return 0 }), deafConsole{}
	current := func() (time.Time, bool) { return time.Now(), false }
	metrics, err := observe.New(tel.Registry, observe.State{
		Store: func() artifact.Stats { return artifact.Stats{} }, Plan: p.Counts, Watchers: hub.Watchers, Stale: current,
	})
	if err != nil {
		return err
	}
	seen, reports := status.NewSeen(console, log), status.NewReports(console, hub, log)
	go func() { _ = seen.Run(ctx) }()    // ends with ctx
	go func() { _ = reports.Run(ctx) }() // ends with ctx
	go func() { _ = hub.Run(ctx) }()     // ends with ctx
	go process.Collect(ctx)              // as the distributor's main has it
	door := rpc.NewDelivery(rpc.Deps{
		Plan: p, Stale: current, Confirmed: time.Now, Nudges: hub,
		Hold: hold.New(nil, func() catalog.Removals { return catalog.Removals{} }, p.Has, log), Reports: reports, Seen: seen,
		Metrics: metrics, NextPoll: 2 * time.Minute, Pressure: func() float64 { return 0 }, Log: log,
	})
	s, err := server.New(
		server.Config{Listen: "127.0.0.1:0", CertFile: os.Getenv(envCert), KeyFile: os.Getenv(envKey)},
		server.Deps{
			Name: "distributor", Log: log, Telemetry: tel, Verifier: verifier,
			Policy: identity.Policy{
				deliveryv1connect.DeliveryServiceSyncProcedure:   identity.RoleAgent,
				deliveryv1connect.DeliveryServiceWatchProcedure:  identity.RoleAgent,
				deliveryv1connect.DeliveryServiceReportProcedure: identity.RoleAgent,
			},
		},
		server.RPC(deliveryv1connect.DeliveryServiceName, func(opts ...connect.HandlerOption) (string, http.Handler) {
			return deliveryv1connect.NewDeliveryServiceHandler(door, opts...)
		}).Lingering(),
	)
	if err != nil {
		return err
	}
	if err := s.Listen(); err != nil {
		return err
	}
	fmt.Fprintln(stdout, s.URL())
	return s.Run(ctx)
}

// wholePlan has every cluster's services delivered.
func wholePlan() *plan.Plan {
	p := plan.New(plan.Memory{})
	p.Update(time.Now().Add(-time.Hour), func(u *plan.Update) {
		u.Source("shop", &plan.Source{UID: "1", Heads: map[string]plan.Revision{"HEAD": {Commit: fmt.Sprintf("%040d", 1)}}})
		for i := range clusters {
			u.Cluster(clusterName(i), true)
			for j := range services {
				u.Service(catalog.NewService(&consolev1.Service{
					Metadata: &consolev1.Metadata{Name: serviceName(i, j), Uid: fmt.Sprint(i, "-", j)},
					Spec:     &consolev1.ServiceSpec{Cluster: clusterName(i), Namespace: namespace, Source: "shop", Path: folder(j)},
				}))
			}
		}
		u.Loaded()
		u.Current()
	})
	for _, w := range p.Open() {
		p.Answer(time.Now().Add(-time.Hour), plan.Answer{Want: w, Artifact: plan.Artifact{Digest: content(w.Path), Size: 1, Files: 1}})
	}
	return p
}

// deafConsole takes all there is to say.
type deafConsole struct{}

func (deafConsole) RecordReports(context.Context, *consolev1.RecordReportsRequest) (*consolev1.RecordReportsResponse, error) {
	return &consolev1.RecordReportsResponse{}, nil
}

func (deafConsole) RecordHub(context.Context, *consolev1.RecordHubRequest) (*consolev1.RecordHubResponse, error) {
	return &consolev1.RecordHubResponse{}, nil
}

func (deafConsole) RecordSeen(context.Context, *consolev1.RecordSeenRequest) (*consolev1.RecordSeenResponse, error) {
	return &consolev1.RecordSeenResponse{}, nil
}
