// Package server is the one constructor of every service's listener.
//
// A mount gets: Connect, gRPC and gRPC-web on one port over HTTP/1.1, h2c and TLS; limits on headers, messages, bodies
// and time; an identity check that fails closed; health; reflection; metrics; CORS; recovery from panics; traces and a
// log line per request; a graceful end.
//
// Without an identity only these answer: GET /healthz (the process lives), GET /readyz (it should get requests; 503
// otherwise), grpc.health.v1 and procedures whose policy says RoleOpen. With one: GET /version and reflection besides
// the mounts. Administrators, services of the hub and callers with the metrics token get GET /metrics, and the reason
// from GET /readyz; administrators and services of the hub get GET /debug/log and GET /debug/pprof/PROFILE as well.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	connectcors "connectrpc.com/cors"
	"connectrpc.com/validate"
	"github.com/rs/cors"

	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/loopback"
	"fairlead.dev/platform/server/internal/socket"
	"fairlead.dev/platform/telemetry"
)

// Limits of every listener.
const (
	// DefaultReadMaxBytes bounds one message: a report of 500 services, or a secret with 64 values of
	// 64 KiB, which are the largest requests that the protos allow.
	DefaultReadMaxBytes = 4<<20 + envelopeBytes
	// sendMaxBytes bounds one answer: what clients accept (client.ReadMaxBytes).
	sendMaxBytes = 64 << 20
	// compressMinBytes: below it, compression costs more than it saves. Our own clients ask for none.
	compressMinBytes  = 16 << 10
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	// defaultMaxHeaderBytes has room for a token with many groups.
	defaultMaxHeaderBytes = 64 << 10
	// maxConcurrentStreams per connection. Clients of ours open another connection at the limit; the
	// work that a flood of resets can cause grows with it.
	maxConcurrentStreams = 1000
	// Go's default of 1 MiB for a whole connection lets one stream that nobody reads stop all the
	// others, as a tunnel's session would.
	connectionWindow = 16 << 20
	streamWindow     = 4 << 20
	// Next to nothing is remembered per connection of the fields that answers have. How much requests may lean on
	// must not be lowered here: until our settings have reached them, clients count with HTTP/2's 4 KiB.
	ourHeaders = 1
	// A connection is asked for a sign of life by HTTP/2 after this silence, and given up after that wait. The ping is
	// for processes that hang: agents poll more often. A peer whose machine or network is gone is found by the kernel,
	// which costs this process nothing: after silentIdle it probes, and writeStall bounds how long bytes stay
	// unconfirmed.
	pingAfter      = 3 * time.Minute
	pingWait       = 15 * time.Second
	silentIdle     = 15 * time.Second
	silentInterval = 5 * time.Second
	silentProbes   = 3
	// A peer that takes no byte at all for this long is gone; not so on a connection that was upgraded.
	writeStall = 60 * time.Second
	// leftoverTime bounds how long net/http may wait, when a handler has returned, for what that left of
	// a body: the time for a small rest, so that the connection can be used again.
	leftoverTime = 5 * time.Second
)

// Config is what differs per deployment.
type Config struct {
	// Listen is host:port; port 0 takes a free one. The host must be a loopback address unless there is a
	// certificate or Plaintext.
	Listen string
	// CertFile and KeyFile are PEM files; renewed files are taken in without a restart.
	CertFile, KeyFile string
	// Plaintext says that a proxy in front ends TLS, so that no certificate is needed here.
	Plaintext bool
	// AllowedOrigins may use the API from a browser, with a session's cookie if they are written out, without "*".
	// Empty: only pages of this origin.
	AllowedOrigins []string
	// DrainDelay is how long to serve on as "not ready" before intake stops, so that load balancers
	// notice. Zero where there are none; some seconds in Kubernetes.
	DrainDelay time.Duration
	// TrustedProxies are addresses or networks of proxies whose X-Forwarded-For is believed, so that callers are told
	// apart. Empty: none.
	TrustedProxies []string
	// MetricsTokenFile holds a token that opens GET /metrics and the reason of GET /readyz, and nothing else; empty:
	// there is none.
	MetricsTokenFile string
	// ReadMaxBytes bounds one message; 0: DefaultReadMaxBytes.
	ReadMaxBytes int
	// MaxHeaderBytes bounds the head of a request; 0: 64 KiB.
	MaxHeaderBytes int
}

// Secure says that callers come over TLS, which ends here or at a proxy in front.
func (c *Config) Secure() bool { return c.CertFile != "" || c.Plaintext }

// RegisterFlags adds --listen (with the given default), --tls-cert, --tls-key, --plaintext,
// --allowed-origins, --trusted-proxies, --drain-delay and --metrics-token-file.
func (c *Config) RegisterFlags(fs *flag.FlagSet, listen string) {
	fs.StringVar(&c.Listen, "listen", listen, "address to listen at, `host:port`; beyond this machine only with --tls-cert and --tls-key, or --plaintext")
	fs.StringVar(&c.CertFile, "tls-cert", "", "PEM `file` with the TLS certificate")
	fs.StringVar(&c.KeyFile, "tls-key", "", "PEM `file` with the key of the TLS certificate")
	fs.BoolVar(&c.Plaintext, "plaintext", false, "listen without TLS beyond this machine, because a proxy in front ends TLS")
	fs.Func("allowed-origins", "comma-separated `origins` whose pages may use the API from a browser", flags.List(&c.AllowedOrigins))
	fs.Func("trusted-proxies", "comma-separated `networks` of proxies in front, such as 10.0.0.0/8, whose X-Forwarded-For tells who calls; default: none is believed", flags.List(&c.TrustedProxies))
	fs.DurationVar(&c.DrainDelay, "drain-delay", 0, "how long to serve on as not ready before stopping, so that load balancers notice")
	fs.StringVar(&c.MetricsTokenFile, "metrics-token-file", "",
		"`file` with a token for Prometheus, at least 16 characters, which opens /metrics and what /readyz says, and nothing else; it may be replaced at any time")
}

// Deps is what a listener works with. Only Rejected, Debugged, Ready and Note may be missing.
type Deps struct {
	Name      string // Of the service, such as "gitcache".
	Log       *slog.Logger
	Telemetry *telemetry.Telemetry
	Verifier  identity.Verifier
	Policy    identity.Policy                  // Must have every procedure that is mounted.
	Rejected  func(r *http.Request, why error) // Told of a request whose token is forged, expired or revoked, once it is answered.
	Debugged  func(r *http.Request, code int)  // Told of each read of the log or of a profile, once it is answered: both may show what people do.
	Ready     func() error                     // Why the service should get no requests; nil: it is ready.
	Unsigned  bool                             // The service accepts what older versions write to Redis and send: GET /version says so.
	Note      func() string                    // Facts that people should know of it though it is ready, such as how old what it serves is; "": nothing.
	DataDir   string                           // Of the service: observers are told when its disk is nearly full. "": it has none.
	Secret    *hubsecret.File                  // Of the hub: replicas resume each other's TLS sessions by it; nil: each its own.
}

// Server is a listener. New, then Listen, then Run.
type Server struct {
	name         string
	log          *slog.Logger
	telemetry    *telemetry.Telemetry
	verifier     identity.Verifier
	rejected     func(r *http.Request, why error)
	debugged     func(r *http.Request, code int)
	readiness    readiness
	readyFunc    func() error
	noteFunc     func() string
	unsigned     bool
	dataDir      string
	secret       *hubsecret.File
	scrapers     telemetry.Scrapers
	readMaxBytes int
	drainDelay   time.Duration
	drainLimit   time.Duration
	after        func(time.Duration) <-chan time.Time // time.After, but for tests.
	listen       string

	open       *bodies
	procedures []Procedure
	http       *http.Server
	drain      *drain
	stopping   atomic.Bool
	places     places
	trusted    proxies
	tls        bool
	tlsConfig  *tls.Config
	listener   net.Listener // Set by Listen.
}

// New puts a listener together. New binds nothing and starts nothing.
func New(cfg Config, deps Deps, mounts ...Mount) (*Server, error) {
	if err := checkDeps(deps); err != nil {
		return nil, err
	}
	if err := checkAddress(cfg); err != nil {
		return nil, err
	}
	s := &Server{
		name:         deps.Name,
		log:          deps.Log,
		telemetry:    deps.Telemetry,
		verifier:     deps.Verifier,
		rejected:     deps.Rejected,
		debugged:     deps.Debugged,
		readyFunc:    deps.Ready,
		noteFunc:     deps.Note,
		unsigned:     deps.Unsigned,
		dataDir:      deps.DataDir,
		secret:       deps.Secret,
		readMaxBytes: cfg.ReadMaxBytes,
		drainDelay:   cfg.DrainDelay,
		drainLimit:   drainLimit,
		after:        time.After,
		listen:       cfg.Listen,
		drain:        newDrain(),
		open:         newBodies(),
		tls:          cfg.CertFile != "",
		places:       places{socket.MostConnections(), strangersPerNetwork, newTime, lineTimeout},
	}
	var err error
	if s.scrapers, err = telemetry.NewScrapers(cfg.MetricsTokenFile); err != nil {
		return nil, err
	}
	trusted, err := parseProxies(cfg.TrustedProxies)
	if err != nil {
		return nil, err
	}
	if s.readMaxBytes <= 0 {
		s.readMaxBytes = DefaultReadMaxBytes
	}
	handler, err := s.handler(deps, mounts)
	if err != nil {
		return nil, fmt.Errorf("%s listener: %w", deps.Name, err)
	}
	browser := identity.Browser{Secure: cfg.Secure(), Origins: cfg.AllowedOrigins}
	s.http = newHTTPServer(s, withCORS(cfg.AllowedOrigins, browser.Handler(handler)))
	s.http.MaxHeaderBytes = cmp.Or(cfg.MaxHeaderBytes, defaultMaxHeaderBytes)
	s.http.Handler, s.trusted = trusted.handler(s.http.Handler), trusted
	if s.tls {
		if s.tlsConfig, err = TLS(cfg.CertFile, cfg.KeyFile, deps.Log); err != nil {
			return nil, err
		}
		if deps.Secret != nil {
			resume(s.tlsConfig, deps.Secret, time.Now)
		}
	}
	return s, nil
}

func checkDeps(deps Deps) error {
	switch {
	case deps.Name == "":
		return errors.New("listener: no name given")
	case deps.Log == nil, deps.Telemetry == nil:
		return fmt.Errorf("%s listener: no log or telemetry given", deps.Name)
	case deps.Verifier == nil:
		return fmt.Errorf("%s listener: no verifier given: nothing is served without authentication", deps.Name)
	}
	return nil
}

func checkAddress(cfg Config) error {
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen address %q: must be host:port", cfg.Listen)
	}
	if (cfg.CertFile == "") != (cfg.KeyFile == "") {
		return errors.New("TLS: certificate and key are needed together; give both --tls-cert and --tls-key")
	}
	if cfg.CertFile != "" || cfg.Plaintext || loopback.Host(host) {
		return nil
	}
	return fmt.Errorf("listen address %s can be reached from other machines, and would be without TLS: give --tls-cert and --tls-key, or --plaintext if a proxy in front ends TLS, or listen at 127.0.0.1", cfg.Listen)
}

func newHTTPServer(s *Server, handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		DisableGeneralOptionsHandler: true, // that handler would answer past Handler
		Handler:                      s.roomy(identity.Abortable(s.track(handler))),
		ReadHeaderTimeout:            readHeaderTimeout,
		IdleTimeout:                  idleTimeout,
		// No ReadTimeout and WriteTimeout: they would end streams. The gate bounds bodies.
		Protocols: protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxConcurrentStreams,
			MaxEncoderHeaderTableSize:     ourHeaders,
			MaxReceiveBufferPerConnection: connectionWindow,
			MaxReceiveBufferPerStream:     streamWindow,
			SendPingTimeout:               pingAfter,
			PingTimeout:                   pingWait,
			WriteByteTimeout:              socket.WriteLimit(writeStall),
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateHijacked {
				socket.AllowSilence(c)
			}
		},
		ConnContext: withGuest,
		BaseContext: func(net.Listener) context.Context { return context.WithValue(s.drain.ctx, drainKey{}, s.drain.begun) },
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // For what strangers do to the port.
	}
}

// doubtfulLength holds for a request whose end a proxy in front may see elsewhere than net/http does. With both a
// Content-Length and chunks net/http goes by the chunks and drops the length without a trace (RFC 9112, 6.3), so chunks
// alone count here; of HTTP/1.0 it drops Transfer-Encoding. No request may be served behind such a one on its
// connection: it could be the smuggled half of somebody else's.
func doubtfulLength(r *http.Request) bool {
	return r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) > 0)
}

// track lets the drain wait for handlers, ends requests whose time in it is over, and doesn't wait for
// callers who keep the rest of a body to themselves. (The context of
// a request whose connection was taken over ends with the base context only.)
func (s *Server) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.drain.enter() {
			http.Error(w, s.name+" is stopping", http.StatusServiceUnavailable)
			return
		}
		defer s.drain.running.Done()
		if doubtfulLength(r) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
		if why := identity.Rejected(r.Context()); why != nil && s.rejected != nil {
			s.rejected(r, why)
		}
		if r.ProtoMajor == 1 && r.Body != http.NoBody {
			// The server sets its own deadline before the next request. Where none is possible there is nothing to wait
			// for.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(leftoverTime))
		}
	})
}

func withCORS(origins []string, next http.Handler) http.Handler {
	if len(origins) == 0 {
		return next
	}
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		// Never for everybody's pages. (Their cookies would not count either: see identity.Browser.)
		AllowCredentials: !strings.Contains(strings.Join(origins, ","), "*"),
		AllowedMethods:   append(connectcors.AllowedMethods(), http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete),
		AllowedHeaders:   append(connectcors.AllowedHeaders(), "Authorization", identity.CSRFHeader, "Traceparent", "Accept", "If-None-Match", "Range"),
		ExposedHeaders:   append(connectcors.ExposedHeaders(), "Etag", "Content-Range"),
		MaxAge:           int((2 * time.Hour).Seconds()), // Browsers keep no more.
	}).Handler(next)
}

// handler puts all mounts together.
func (s *Server) handler(deps Deps, mounts []Mount) (_ http.Handler, err error) {
	defer func() {
		if r := recover(); r != nil { // ServeMux says so when patterns collide.
			err = fmt.Errorf("mount: %v", r)
		}
	}()
	m, err := newMetrics(s.telemetry.Registry)
	if err != nil {
		return nil, err
	}
	o := &observer{log: s.log, telemetry: s.telemetry, metrics: m, name: s.name}
	options := s.options(deps, o)
	root := &router{mux: http.NewServeMux()}
	var services []string
	for _, mount := range mounts {
		if mount.build == nil {
			continue
		}
		services = append(services, mount.service)
		if err := s.mountRPC(root.mux, deps, mount, options); err != nil {
			return nil, err
		}
	}
	s.mountOpen(root.mux, services)
	for _, mount := range append(s.closed(deps.Verifier, services), mounts...) {
		if mount.build == nil {
			s.mountHTTP(root, deps, o, mount)
		}
	}
	return root, nil
}

// options are what every Connect handler is built with. The order of interceptors is outermost first.
func (s *Server) options(deps Deps, o *observer) []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithReadMaxBytes(s.readMaxBytes),
		connect.WithSendMaxBytes(sendMaxBytes),
		connect.WithCompressMinBytes(compressMinBytes),
		jsonCodecs(),
		connect.WithInterceptors(s.spans(deps.Policy), o, identity.Interceptor(deps.Verifier, deps.Policy), validate.NewInterceptor()),
	}
}

func (s *Server) spans(policy identity.Policy) tracing {
	return tracing{s.telemetry.Tracer.Tracer("fairlead.dev/platform/server"), policy}
}

func (s *Server) mountRPC(mux *http.ServeMux, deps Deps, mount Mount, options []connect.HandlerOption) error {
	procedures, err := proceduresOf(mount.service, deps.Policy)
	if err != nil {
		return err
	}
	pattern, handler := mount.build(options...)
	if want := "/" + mount.service + "/"; pattern != want {
		return fmt.Errorf("service %q is built by the constructor of %q", mount.service, strings.Trim(pattern, "/"))
	}
	s.procedures = append(s.procedures, procedures...)
	mux.Handle(pattern, newGate(procedures, deps.Verifier, s.readMaxBytes, handler, mount.lingers, s.open))
	return nil
}

func (s *Server) mountHTTP(root *router, deps Deps, o *observer, mount Mount) {
	handler := mount.handler
	if mount.role != identity.RoleOpen {
		handler = mount.guard(deps.Verifier)
	} else if !mount.raw {
		handler = s.open.handler(handler)
	}
	if !mount.raw {
		handler = http.MaxBytesHandler(handler, int64(s.readMaxBytes))
	}
	if mount.page != nil {
		handler = leading(mount.page, handler)
	}
	handler = newPlain(o, s.spans(nil), mount.pattern, mount.traced, handler)
	if mount.raw {
		root.raw = append(root.raw, rawRoute{mount.pattern, handler})
		return
	}
	root.mux.Handle(mount.pattern, handler)
}

// router serves raw prefixes before ServeMux would clean their paths.
type router struct {
	raw []rawRoute
	mux *http.ServeMux
}

type rawRoute struct {
	prefix  string
	handler http.Handler
}

func (rt *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, route := range rt.raw {
		if strings.HasPrefix(r.URL.Path, route.prefix) {
			route.handler.ServeHTTP(w, r)
			return
		}
	}
	rt.mux.ServeHTTP(w, r)
}

// Procedures returns every procedure of the mounted Connect services and who may call it. (Health and
// reflection are not among them.)
func (s *Server) Procedures() []Procedure { return s.procedures }

// Listen binds the address, unless it is bound. After it URL answers, and connections queue up until Run.
func (s *Server) Listen() error {
	if s.listener != nil {
		return nil
	}
	config := net.ListenConfig{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silentIdle, Interval: silentInterval, Count: silentProbes},
		Control:         socket.BoundSilence(writeStall),
	}
	listener, err := config.Listen(context.Background(), "tcp", s.listen)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.listener = listener
	return nil
}

// Close gives the address back if Run is not to be called after Listen.
func (s *Server) Close() error {
	if s.listener == nil {
		return nil
	}
	return s.listener.Close()
}

// URL returns how to reach the listener on this machine: https://127.0.0.1:7401. Before Listen it is "".
func (s *Server) URL() string {
	if s.listener == nil {
		return ""
	}
	scheme := "http://"
	if s.tls {
		scheme = "https://"
	}
	address, ok := s.listener.Addr().(*net.TCPAddr)
	if ok && address.IP.IsUnspecified() {
		return scheme + net.JoinHostPort("127.0.0.1", fmt.Sprint(address.Port))
	}
	if host, port, err := net.SplitHostPort(s.listen); err == nil && ok && host == "localhost" && port != "" {
		return scheme + net.JoinHostPort(host, fmt.Sprint(address.Port))
	}
	return scheme + s.listener.Addr().String()
}

// Run serves until ctx ends, then: not ready, wait DrainDelay, stop intake, let requests finish for
// at most 10 s, cut off the rest. Streams are ended when intake stops, but for lingering ones.
// Run returns nil after such an end, and an error if it could not serve.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil { //nolint:contextcheck // Binding takes no time.
		return err
	}
	defer s.drain.cancel()
	served := make(chan error, 1)
	go func() {
		served <- s.http.Serve(openDoor(s.listener, s.tlsConfig, s.places, s.trusted, s.log))
	}()
	s.log.Info("listening", "url", s.URL())
	select {
	case err := <-served:
		return fmt.Errorf("%s: serve: %w", s.name, err)
	case <-ctx.Done():
	}
	s.stop(served) //nolint:contextcheck // The context has ended: the drain has its own bound.
	return nil
}

func (s *Server) stop(served <-chan error) {
	s.stopping.Store(true)
	select {
	case <-s.after(s.drainDelay):
	case err := <-served: // No caller comes any more.
		s.log.Error("the listener failed while it drained", "err", err)
	}
	close(s.drain.begun)
	ctx, cancel := context.WithTimeout(context.Background(), s.drainLimit)
	defer cancel()
	start := time.Now()
	err := s.http.Shutdown(ctx)
	// Connections that a handler took over are not among those that Shutdown waits for.
	finished := s.drain.wait(max(0, s.drainLimit-time.Since(start)))
	s.drain.cancel()
	if err == nil && finished {
		return
	}
	_ = s.http.Close() // Cuts off what is left; each handler sees its own error.
	if !s.drain.wait(unwindLimit) {
		s.log.Warn("stopped with requests unfinished", "waited", time.Since(start).Round(time.Millisecond))
	}
}
