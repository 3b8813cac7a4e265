// Package front gives people one address for the pages, the API that the pages use, and the API servers of clusters.
//
// The front passes each request on to one service, chosen by its path: /clusters/ and the tunnel's API to the tunnel,
// the gitcache's API to the gitcache, all else to the console. The front verifies no caller and changes nothing but
// X-Forwarded-For: the service behind it verifies the caller and finds the browser's cookie, Origin and Fetch-Metadata
// as they were sent. Kubeconfigs name the tunnel and agents name the services, so both work without a front. In
// Kubernetes an Ingress has the same routes.
package front

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"

	"fairlead.dev/platform/server"
)

const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	dialTimeout       = 10 * time.Second
	// maxHeaderBytes is above what any of the services takes.
	maxHeaderBytes = 256 << 10
	// maxStreams per connection of a browser: a page holds a few, a service's merged logs 64.
	maxStreams = 250
	// streamWindow bounds what a stalled reader keeps unread here, per stream; connectionWindow lets the other streams
	// of its connection go on.
	streamWindow, connectionWindow = 1 << 20, 16 << 20
	// All browsers share one connection to each service. Its window is so many times a stream's that streams which
	// nobody reads never stop the others; the memory is bounded by the number of streams.
	serviceWindow = 1 << 30
	// A connection is asked for a sign of life by HTTP/2 after this silence, and given up after that wait: a machine
	// that slept finds its connections gone, and nothing else would end them.
	pingAfter, pingWait = time.Minute, 20 * time.Second
	// drainTimeout lets requests finish at the end; streams are cut.
	drainTimeout = time.Second
)

// Config says where the front listens, and where the services are.
type Config struct {
	Listen            string // host:port
	CertFile, KeyFile string
	CAFile            string // authorities of the services' certificates; empty: those of the system
	Console           string // URL, as are those below
	Gitcache          string
	Tunnel            string
}

// Front is the server. New, Listen, Run.
type Front struct {
	listen   string
	http     *http.Server
	services *http.Transport
	listener net.Listener
	cut      context.CancelFunc // ends streams
}

// New reads the certificates and puts the front together.
func New(cfg Config, log *slog.Logger) (*Front, error) {
	if cfg.CertFile == "" || cfg.KeyFile == "" {
		return nil, errors.New("--tls-cert and --tls-key must be given: the front is reached by HTTPS only")
	}
	certificate, err := server.TLS(cfg.CertFile, cfg.KeyFile, log)
	if err != nil {
		return nil, err
	}
	services, err := newTransport(cfg.CAFile)
	if err != nil {
		return nil, err
	}
	routes, err := newRoutes(cfg, services, log)
	if err != nil {
		return nil, err
	}
	streams, cut := context.WithCancel(context.Background())
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &Front{listen: cfg.Listen, services: services, cut: cut, http: &http.Server{
		Handler:           routes,
		TLSConfig:         certificate,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReceiveBufferPerConnection: connectionWindow,
			MaxReceiveBufferPerStream:     streamWindow, SendPingTimeout: pingAfter, PingTimeout: pingWait,
		},
		BaseContext: func(net.Listener) context.Context { return streams },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug), // errors that strangers at the port cause
	}}, nil
}

// newTransport dials the services, by HTTP/2 but for upgrades.
func newTransport(caFile string) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		text, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read CA file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("CA file %s: no PEM certificate found", caFile)
		}
	}
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    dialTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true, // browsers ask for it themselves
		ForceAttemptHTTP2:      true,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerConnection: serviceWindow,
			MaxReceiveBufferPerStream:     streamWindow, SendPingTimeout: pingAfter, PingTimeout: pingWait,
		},
	}, nil
}

// routes are the services by the beginnings of paths.
type routes struct{ console, gitcache, tunnel http.Handler }

func newRoutes(cfg Config, services http.RoundTripper, log *slog.Logger) (r routes, err error) {
	for _, s := range []struct {
		name, url string
		handler   *http.Handler
	}{{"console", cfg.Console, &r.console}, {"gitcache", cfg.Gitcache, &r.gitcache}, {"tunnel", cfg.Tunnel, &r.tunnel}} {
		to, err := url.Parse(s.url)
		if err != nil || to.Scheme != "https" || to.Host == "" || strings.Trim(to.Path, "/") != "" {
			return r, fmt.Errorf("URL of the %s: must be https://HOST:PORT, not %q", s.name, s.url)
		}
		*s.handler = passOn(s.name, to, services, log)
	}
	return r, nil
}

// ServeHTTP implements http.Handler. A path is compared as it was sent: the services refuse or clean one that means
// another.
func (r routes) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch path := req.URL.EscapedPath(); {
	case strings.HasPrefix(path, "/clusters/"), strings.HasPrefix(path, "/fairlead.tunnel.v1."):
		r.tunnel.ServeHTTP(w, req)
	case strings.HasPrefix(path, "/fairlead.gitcache.v1."):
		r.gitcache.ServeHTTP(w, req)
	default:
		r.console.ServeHTTP(w, req)
	}
}

// passOn gives requests to a service as they came, with the caller's address.
func passOn(name string, to *url.URL, services http.RoundTripper, log *slog.Logger) http.Handler {
	return &httputil.ReverseProxy{
		Transport:     services,
		FlushInterval: -1, // streams
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery // also if it can't be parsed
			r.SetXForwarded()
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				log.WarnContext(r.Context(), "a service gave no answer", "service", name, "err", err)
			}
			w.Header().Set("X-Content-Type-Options", "nosniff")
			http.Error(w, "The "+name+" of the hub gives no answer. Is it running?", http.StatusBadGateway)
		},
	}
}

// Listen binds the address.
func (f *Front) Listen() (err error) {
	if f.listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", f.listen); err != nil {
		return fmt.Errorf("front: %w", err)
	}
	return nil
}

// Addr is the address after Listen.
func (f *Front) Addr() string { return f.listener.Addr().String() }

// Run serves until ctx ends. Listen comes before it.
func (f *Front) Run(ctx context.Context) error {
	defer f.services.CloseIdleConnections()
	defer f.cut()
	served := make(chan error, 1)
	go func() { served <- f.http.ServeTLS(f.listener, "", "") }()
	select {
	case err := <-served:
		return fmt.Errorf("front: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := f.http.Shutdown(drain); err != nil {
		f.cut()
		err = f.http.Close()
		if err != nil {
			return fmt.Errorf("front: %w", err)
		}
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("front: %w", err)
	}
	return nil
}
