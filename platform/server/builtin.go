package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"fairlead.dev/platform/datadir"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/profile"
	"fairlead.dev/platform/version"
)

const (
	// operators may ask which procedures there are.
	operators = identity.RoleUser | identity.RoleHub
	// observers may look into a service: its metrics, its log, its profiles, and why it is not ready. These answers
	// name clusters, sources and addresses, which no grant is asked for here.
	observers = identity.RoleAdmin | identity.RoleHub
)

// maxScrapes bounds how many collect metrics at once: it is work, and nobody needs more.
const maxScrapes = 4

// ready says why the service should get no requests, or nil.
func (s *Server) ready() error {
	if s.stopping.Load() {
		return fmt.Errorf("%s is stopping", s.name)
	}
	if s.readyFunc == nil {
		return nil
	}
	return s.readyFunc()
}

// note is what /readyz says besides.
func (s *Server) note() string {
	var texts []string
	if s.noteFunc != nil {
		texts = append(texts, s.noteFunc())
	}
	if s.secret != nil {
		if err := s.secret.Stuck(); err != nil {
			texts = append(texts, err.Error())
		}
	}
	if s.dataDir != "" {
		texts = append(texts, datadir.Shortage(s.dataDir))
	}
	if texts = slices.DeleteFunc(texts, func(text string) bool { return text == "" }); len(texts) > 0 {
		return ", but " + strings.Join(texts, "; ")
	}
	return ""
}

// mountOpen mounts what needs no identity.
func (s *Server) mountOpen(mux *http.ServeMux, services []string) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", s.serveReady)
	known := map[string]bool{"": true}
	for _, name := range services {
		known[name] = true
	}
	pattern, health := grpchealth.NewHandler(checker{s, known}, connect.WithReadMaxBytes(healthReadMaxBytes))
	health = http.MaxBytesHandler(endOnDrain(health), healthReadMaxBytes)
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		defer boundBodyTime(w, r, healthBodyTime).stop()
		health.ServeHTTP(w, r)
	})
}

// serveReady tells everybody whether the service should get requests, and observers why not, or what they should know
// besides.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	detailed := s.scrapers.Admits(r) || identity.Admit(s.verifier, observers, r) == nil
	err := s.ready()
	s.readiness.log(s.log, err)
	switch {
	case err != nil && detailed:
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, "not ready", http.StatusServiceUnavailable)
	case detailed:
		fmt.Fprintln(w, "ok"+s.note())
	default:
		fmt.Fprintln(w, "ok")
	}
}

// readinessLogEvery bounds how often another reason for not being ready is logged, as a probe sees it.
const readinessLogEvery = 10 * time.Second

// readiness remembers what the log says of it: probes get no reasons, so that the log has them.
type readiness struct {
	mu   sync.Mutex // guards what follows
	why  string
	said time.Time
}

func (v *readiness) log(log *slog.Logger, err error) {
	why := ""
	if err != nil {
		why = err.Error()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if why == v.why || why != "" && v.why != "" && time.Since(v.said) < readinessLogEvery {
		return
	}
	v.why, v.said = why, time.Now()
	if err == nil {
		log.Info("ready")
		return
	}
	log.Info("not ready", "why", why)
}

// The limits of what strangers may send, and in which time: a service's name.
const (
	healthReadMaxBytes = 4 << 10
	healthBodyTime     = 5 * time.Second
)

type checker struct {
	server *Server
	known  map[string]bool
}

func (c checker) Check(_ context.Context, req *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if !c.known[req.Service] {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no service %q here", req.Service))
	}
	status := grpchealth.StatusServing
	if c.server.ready() != nil {
		status = grpchealth.StatusNotServing
	}
	return &grpchealth.CheckResponse{Status: status}, nil
}

// closed returns the mounts that every service has and that need an identity, or the metrics token.
func (s *Server) closed(verifier identity.Verifier, services []string) []Mount {
	reflector := grpcreflect.NewStaticReflector(services...)
	limits := []connect.HandlerOption{connect.WithReadMaxBytes(s.readMaxBytes)}
	v1, reflectV1 := grpcreflect.NewHandlerV1(reflector, limits...)
	alpha, reflectAlpha := grpcreflect.NewHandlerV1Alpha(reflector, limits...)
	return []Mount{
		HTTP("GET /metrics", s.metrics(verifier), identity.RoleOpen), // the handler asks by itself
		HTTP("GET /version", http.HandlerFunc(s.serveVersion), identity.RoleAny),
		HTTP("GET /debug/log", s.debug(s.serveLog), observers),
		HTTP("GET /debug/pprof/{profile}", s.debug(profile.Serve), observers),
		HTTP(v1, endOnDrain(reflectV1), operators),
		HTTP(alpha, endOnDrain(reflectAlpha), operators),
	}
}

// metrics serves observers, and callers with the metrics token.
func (s *Server) metrics(verifier identity.Verifier) http.Handler {
	metrics := promhttp.HandlerFor(s.telemetry.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true})
	others := identity.Middleware(verifier, observers, metrics)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.scrapers.Admits(r) {
			metrics.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}

// Version is what GET /version answers.
type Version struct {
	Service string `json:"service"`
	Version string `json:"version"`
	// UnsignedMembers says that --unsigned-members=accept is on.
	UnsignedMembers bool `json:"unsignedMembers,omitempty"`
}

func (s *Server) serveVersion(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(Version{Service: s.name, Version: version.String(), UnsignedMembers: s.unsigned}) // Fails if the caller is gone.
}
