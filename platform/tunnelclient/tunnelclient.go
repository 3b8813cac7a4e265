// Package tunnelclient lets people reach this cluster's API server through the hub's tunnel.
//
// A Client keeps a session to each tunnel endpoint, dialled from here, and answers the requests that come over it by
// asking the API server as the person that the hub has verified (impersonation). A Client fails closed: without a
// caller, or with one that Kubernetes would take for a part of itself, nothing is asked. The package knows no
// Kubernetes client: it is given a URL and a RoundTripper.
package tunnelclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxhttp"
)

const (
	// sessions that an agent holds, to distinct replicas, so that one may go: one session carries many streams.
	sessions = 2
	// endpointsEvery is how often Endpoints is asked again.
	endpointsEvery = 5 * time.Second
	// Reconnects are spread over the whole pause (full jitter), so that a thousand agents don't come back at once.
	// However long the hub was away, all have tried within mostPause, and 5,000 are to be back within 30 s.
	firstPause, mostPause = 500 * time.Millisecond, 20 * time.Second
	// longLived is the life after which a session's end counts as a fresh start.
	longLived = 30 * time.Second
	// drainLimit is how long running requests may go on when the agent stops.
	drainLimit = 5 * time.Second
)

// stopping is what the hub is told.
const stopping = "the agent is stopping"

// Config says where the tunnels and the API server are.
type Config struct {
	// Endpoints returns the URLs of the tunnels; asked again and again, for they may change.
	Endpoints func() []string
	// HTTPClient dials the tunnels. The client should be used for nothing else: after a connection went silent its idle
	// connections are closed.
	HTTPClient *http.Client
	// Another makes such a client with connections of its own: behind one address there may be several replicas,
	// and the second session is to reach another one. Nil: one session per endpoint is enough.
	Another func() (*http.Client, error)
	// Token is the agent's credential at the hub.
	Token identity.TokenSource
	// Kube is the API server's base URL.
	Kube *url.URL
	// Transport asks the API server with the agent's own credential, which must be allowed to impersonate.
	Transport http.RoundTripper
	// Policy is what is let through.
	Policy Policy
	// Also are more policies that each request has to pass, as of now; nil: none. What Policy refuses none of them lets
	// through.
	Also func() []Policy
	// Own answers what people ask of the agent itself, below OwnPrefix, after the policy let them through; nil: there
	// is no such thing. Own is told whom the API server would take the request for.
	Own func(w http.ResponseWriter, r *http.Request, as muxhttp.Impersonated)
	// Version of the agent, for the hub to show.
	Version string
	// Tracer makes spans of requests that belong to a trace which is recorded; nil: none.
	Tracer trace.Tracer
	Log    *slog.Logger
}

// Client keeps the sessions. New, then Run.
type Client struct {
	cfg     Config
	handler http.Handler
	running sync.WaitGroup // sessions, also those that drain while their replacements live

	mu      sync.Mutex // guards what follows
	states  map[*slot]State
	held    map[string]int // sessions that take requests, by replica
	changed chan struct{}  // closed and made anew when held changes
}

// State is how one endpoint is doing.
type State struct {
	Endpoint  string
	Connected bool
	Since     time.Time // of being connected or not
	Err       error     // why it is not connected; nil at first
	Carrier   string    // of the session: "websocket", or "connect" where no WebSocket reaches the hub
}

// New checks the configuration. New dials nothing.
func New(cfg Config) (*Client, error) {
	switch {
	case cfg.Endpoints == nil || cfg.HTTPClient == nil || cfg.Token == nil || cfg.Log == nil:
		return nil, errors.New("reach: endpoints, HTTP client, token and log are needed")
	case cfg.Kube == nil || cfg.Transport == nil:
		return nil, errors.New("reach: the API server's URL and transport are needed")
	case cfg.Kube.Scheme != "https" && cfg.Kube.Scheme != "http" || cfg.Kube.Host == "":
		return nil, fmt.Errorf("reach: API server's URL %q must be http(s)://host", cfg.Kube.Redacted())
	}
	if cfg.Tracer == nil {
		cfg.Tracer = noop.NewTracerProvider().Tracer("")
	}
	return &Client{
		cfg:     cfg,
		handler: &proxy{base: cfg.Kube, transport: cfg.Transport, policy: cfg.Policy, also: cfg.Also, own: cfg.Own, tracer: cfg.Tracer, log: cfg.Log},
		states:  make(map[*slot]State),
		held:    make(map[string]int),
		changed: make(chan struct{}),
	}, nil
}

// States returns how the endpoints are doing, by URL. One is connected if it has a session at all.
func (r *Client) States() []State {
	r.mu.Lock()
	best := make(map[string]State)
	for _, s := range r.states {
		if old, ok := best[s.Endpoint]; !ok || s.Connected && !old.Connected {
			best[s.Endpoint] = s
		}
	}
	r.mu.Unlock()
	list := slices.Collect(maps.Values(best))
	slices.SortFunc(list, func(a, b State) int {
		switch {
		case a.Endpoint < b.Endpoint:
			return -1
		case a.Endpoint > b.Endpoint:
			return 1
		default:
			return 0
		}
	})
	return list
}

// Run keeps the sessions until ctx ends; then it lets running requests finish for a moment and
// returns nil.
func (r *Client) Run(ctx context.Context) error {
	defer r.cfg.HTTPClient.CloseIdleConnections()
	defer r.running.Wait()
	kept := make(map[place]context.CancelFunc)
	defer func() {
		for _, stop := range kept {
			stop()
		}
	}()
	ticker := time.NewTicker(endpointsEvery)
	defer ticker.Stop()
	for {
		wanted := r.cfg.Endpoints()
		for at, stop := range kept {
			if !slices.Contains(wanted, at.endpoint) {
				stop()
				delete(kept, at)
			}
		}
		for _, at := range r.places(wanted) {
			if kept[at] != nil {
				continue
			}
			keepCtx, stop := context.WithCancel(ctx)
			kept[at] = stop
			r.running.Go(func() { r.keep(keepCtx, &slot{reach: r, place: at}) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// places are those that endpoints need. A place that is not needed any more, because there are more endpoints, is kept
// while it has its endpoint.
func (r *Client) places(endpoints []string) (all []place) {
	for _, endpoint := range endpoints {
		all = append(all, place{endpoint: endpoint})
		if len(endpoints) < sessions && r.cfg.Another != nil {
			all = append(all, place{endpoint: endpoint, second: true})
		}
	}
	return all
}

// drain lets requests that run finish, when the agent stops; new ones go elsewhere.
func drain(ctx context.Context, session *mux.Session) {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	session.Drain(limit, stopping)
}

// linger lets the last streams of a session that goes away finish. The hub sets their deadline.
func linger(ctx context.Context, session *mux.Session, ended <-chan error) {
	select {
	case <-ended: //nolint:errcheck // as the hub had told
	case <-ctx.Done():
		session.Close(mux.CodeNone, stopping)
		<-ended //nolint:errcheck // it was told to
	}
}

// dial starts a session and its serving. ended gets the session's error when all of it has ended.
func (k *slot) dial(ctx context.Context, carrier string, log *slog.Logger) (*mux.Session, <-chan error, error) {
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	line, release, err := k.dialCarrier(streamCtx, carrier)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	session, err := mux.NewAcceptor(line, map[string]string{"version": k.reach.cfg.Version, muxhttp.Impersonation: "yes"})
	if err != nil {
		_ = line.Close()
		release()
		cancel()
		return nil, nil, err
	}
	ended := make(chan error, 1)
	hc, another := k.http, k.reach.cfg.Another != nil
	k.reach.running.Go(func() {
		defer cancel()
		var serving sync.WaitGroup
		serving.Go(func() { _ = muxhttp.Serve(streamCtx, session, k.reach.handler, log) }) // ends with the session, whose error counts
		err := session.Run(streamCtx)
		cancel()
		serving.Wait()
		release()
		if another {
			hc.CloseIdleConnections()
		}
		ended <- err
	})
	return session, ended, nil
}

// explain turns a session's end into words with a next step, and drops connections that went silent,
// which would be dialled over again.
func (k *slot) explain(err error) error {
	k.http.CloseIdleConnections()
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated:
		return fmt.Errorf("%w. If that goes on, give the agent a new join token", err)
	case connect.CodeNotFound, connect.CodePermissionDenied:
		return fmt.Errorf("%w. Check that the cluster is still in the hub's catalog", err)
	default:
		return err
	}
}

func redacted(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "(not a URL)"
	}
	return u.Redacted()
}
