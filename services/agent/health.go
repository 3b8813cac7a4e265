package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	headerTimeout = 5 * time.Second
	stopTimeout   = 2 * time.Second
)

// Ready says what keeps the agent from working, or nil. An agent with the hub away is ready as long
// as it knows what to apply, and so is one that stands by.
func (a *Agent) Ready() error {
	if a.standsBy() {
		return nil
	}
	select {
	case <-a.controller.Loaded():
	default:
		return errors.New("the cluster could not be read yet")
	}
	if !a.poller.Synced() && len(a.desired.Names()) == 0 {
		return errors.New("the hub has not said yet what to apply")
	}
	return nil
}

// clusterProblem says why nothing can be done in the cluster, "" if something can.
func (a *Agent) clusterProblem() string {
	const patience = 30 * time.Second // as the watcher has it
	select {
	case <-a.controller.Loaded():
		return a.memory.Silence()
	default:
	}
	if time.Since(a.made) < patience {
		return ""
	}
	return "the API server has not let the agent read its inventories since the start at " +
		a.made.UTC().Format(time.RFC3339)
}

// reachesHub says what of the hub this agent does not reach, or nil. reachesHub is no probe: an agent goes on without
// the hub. The chart's test asks for it.
func (a *Agent) reachesHub() error {
	if !a.standsBy() && !a.poller.Synced() {
		return errors.New("no distributor has answered this agent yet")
	}
	if settings, _ := a.config.InForce(); settings.NoTunnel {
		return nil
	}
	for _, s := range a.reach.States() {
		if s.Connected {
			return nil
		}
	}
	return errors.New("there is no session to a tunnel")
}

// serveHealth serves the probes. The server is plain net/http: the agent links no server of the hub.
func (a *Agent) serveHealth(ctx context.Context) error {
	if a.cfg.HealthListen == "" || a.cfg.HealthListen == ":0" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.cfg.HealthListen)
	if err != nil {
		return fmt.Errorf("listen for health checks: %w", err)
	}
	server := &http.Server{
		Handler: a.healthHandler(a.metrics(loopback(listener.Addr()))), ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: 2 * headerTimeout, MaxHeaderBytes: 16 << 10,
	}
	a.log.Info("health checks are served", "address", listener.Addr().String())
	if err := serveUntil(ctx, listener, server); err != nil {
		return fmt.Errorf("serve health checks: %w", err)
	}
	return nil
}

// serveUntil serves until ctx ends, and lets requests on their way end for a moment.
func serveUntil(ctx context.Context, listener net.Listener, server *http.Server) error {
	stop := context.AfterFunc(ctx, func() {
		deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(deadline) != nil {
			_ = server.Close()
		}
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (a *Agent) allMetrics() http.Handler {
	return promhttp.HandlerFor(a.telemetry.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, EnableOpenMetrics: true})
}

// metrics is for those who have the metrics token; without one, for this machine; else nil.
func (a *Agent) metrics(local bool) http.Handler {
	metrics := a.allMetrics()
	if a.scrapers.Any() {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !a.scrapers.Admits(r) {
				http.Error(w, "metrics want the token of --metrics-token-file", http.StatusUnauthorized)
				return
			}
			metrics.ServeHTTP(w, r)
		})
	}
	if local {
		return metrics
	}
	return nil
}

func (a *Agent) healthHandler(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	for path, check := range map[string]func() error{"/readyz": a.Ready, "/hubz": a.reachesHub} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("ok\n"))
		})
	}
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	return mux
}

// loopback tells addresses that only this machine, or this pod, can reach.
func loopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
