// Package acceptance tests the tunnel from outside: with clusters that do what a test says, agents' real end of a
// session, and a console in memory.
package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/consoletest"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/hubservice"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/localca"
	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/parallel"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/tunnel"
)

// patience is how long what has to happen may take on a machine that is busy.
const patience = 5 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(asTunnel) != "" {
		runTunnel()
		return
	}
	parallel.WaitingTests()
	goleak.VerifyTestMain(m)
}

// console is as much of a console as a tunnel needs.
type console struct {
	*consoletest.Console
	consolev1connect.UnimplementedAuditServiceHandler
	consolev1connect.UnimplementedStatusServiceHandler
	consolev1connect.UnimplementedRecordingServiceHandler
	consolev1connect.UnimplementedAccessServiceHandler

	mu     sync.Mutex // guards what follows
	events []*consolev1.AuditEvent
	uses   []*consolev1.AgentTokenUse
	// The rights that CheckAccess allows, as "edit Service web" by token.
	allowed map[string]string
	// The recordings that came; full: nothing more can be recorded.
	recordings []*consolev1.Recording
	pieces     []*consolev1.AppendRecordingRequest
	full       bool
	noRoom     bool  // for another recording
	maxBytes   int64 // of a recording; 0: as many as there are
	away       bool  // no events are taken in
}

func (c *console) sign(t *testing.T, id identity.Identity) string {
	t.Helper()
	token, _, err := c.Sign(identitytest.Bind(id))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// revoke makes the tokens of a subject invalid as soon as the tunnel hears of it.
func (c *console) revoke(subject string) {
	c.Revoke(identity.Revocation{Subject: subject, At: time.Now()})
}

// CheckAccess answers by the token of the caller, as a console does.
func (c *console) CheckAccess(ctx context.Context,
	req *consolev1.CheckAccessRequest,
) (*consolev1.CheckAccessResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("away"))
	}
	call, _ := connect.CallInfoForHandlerContext(ctx)
	what := strings.Join([]string{req.GetVerb(), req.GetKind(), req.GetName()}, " ")
	if may, ok := c.allowed[what]; ok && call.RequestHeader().Get("Authorization") == "Bearer "+may {
		return &consolev1.CheckAccessResponse{Allowed: true}, nil
	}
	return &consolev1.CheckAccessResponse{Reason: "you may not " + what}, nil
}

func (c *console) RecordAuditEvents(_ context.Context,
	req *consolev1.RecordAuditEventsRequest,
) (*consolev1.RecordAuditEventsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("away"))
	}
	c.events = append(c.events, req.GetEvents()...)
	return &consolev1.RecordAuditEventsResponse{}, nil
}

func (c *console) RecordTokenUses(_ context.Context,
	req *consolev1.RecordTokenUsesRequest,
) (*consolev1.RecordTokenUsesResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("away"))
	}
	c.uses = append(c.uses, req.GetUses()...)
	return &consolev1.RecordTokenUsesResponse{}, nil
}

// used holds if a token was reported for a cluster.
func (c *console) used(cluster, token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.uses, func(u *consolev1.AgentTokenUse) bool {
		return u.GetCluster() == cluster && u.GetToken() == token && u.GetTime().IsValid()
	})
}

func (c *console) setAway(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}

// audited returns the events of an action that have been recorded.
func (c *console) audited(action string) (events []*consolev1.AuditEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.GetAction() == action {
			events = append(events, e)
		}
	}
	return events
}

// hub is a live tunnel with its console.
type hub struct {
	*console
	t       *testing.T
	config  tunnel.Config
	service *tunnel.Service
	url     string
	ca      []byte
	logs    *syncBuffer
	stop    func() error // ends the tunnel and returns Run's error; more than once is fine

	coordinate func() coordination.Coordinator
	observed   *telemetry.Telemetry // of replicas and agents from now on; nil: nothing is recorded
}

func newHub(t *testing.T, clusters ...string) *hub {
	t.Helper()
	c, err := coordination.Open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return newHubWith(t, func() coordination.Coordinator { return c }, clusters...)
}

// newHubWith starts a tunnel whose replicas agree over what coordinate returns.
func newHubWith(t *testing.T, coordinate func() coordination.Coordinator, clusters ...string) *hub {
	t.Helper()
	c := &console{Console: consoletest.New(t)}
	for _, name := range clusters {
		c.Put(consoletest.Cluster(name))
	}
	m := http.NewServeMux()
	c.Handle(m)
	m.Handle(consolev1connect.NewAuditServiceHandler(c))
	m.Handle(consolev1connect.NewStatusServiceHandler(c))
	m.Handle(consolev1connect.NewRecordingServiceHandler(c))
	m.Handle(consolev1connect.NewAccessServiceHandler(c))
	consoleServer := consoletest.Server(t, m)

	dir := t.TempDir()
	files, err := localca.Ensure(filepath.Join(dir, "ca"), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(files.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(consoletest.HubSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &hub{console: c, t: t, ca: ca, coordinate: coordinate, config: tunnel.Config{DrainTimeout: 20 * time.Second, Config: hubservice.Config{
		Server:     server.Config{Listen: "127.0.0.1:0", CertFile: files.CertFile, KeyFile: files.KeyFile},
		ConsoleURL: consoleServer.URL, HubCAFile: files.CAFile, HubSecretFile: secret,
	}}}
	h.start()
	return h
}

// another starts one more replica of the tunnel. This one knows it then.
func (h *hub) another() *hub {
	h.t.Helper()
	before := len(h.known())
	more := &hub{console: h.console, t: h.t, ca: h.ca, coordinate: h.coordinate, config: h.config, observed: h.observed}
	more.start()
	h.await("the new replica is known", func() bool { return len(h.known()) > before })
	return more
}

func (h *hub) start() {
	h.t.Helper()
	h.logs = &syncBuffer{}
	cfg := h.config
	cfg.DataDir = h.t.TempDir()
	var err error
	h.service, err = tunnel.New(cfg, tunnel.Deps{
		Log:       slog.New(slog.NewTextHandler(h.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Telemetry: h.telemetry(), Coordinator: h.coordinate(),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.service.Listen(); err != nil {
		h.t.Fatal(err)
	}
	h.url = h.service.URL()
	h.run()
}

// telemetry has a registry of its own.
func (h *hub) telemetry() *telemetry.Telemetry {
	tel := telemetry.Discard()
	if h.observed != nil {
		tel.Tracer = h.observed.Tracer
	}
	return tel
}

func (h *hub) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.service.Run(ctx) }()
	h.stop = sync.OnceValue(func() error { cancel(); return <-done })
	h.t.Cleanup(func() { _ = h.stop() })
	h.await("the tunnel is ready", func() bool {
		resp, err := h.client().Get(h.url + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// await waits until ok holds.
func (h *hub) await(what string, ok func() bool) {
	h.t.Helper()
	h.awaitFor(patience, what, ok)
}

func (h *hub) awaitFor(limit time.Duration, what string, ok func() bool) {
	h.t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(limit)
	for !ok() {
		select {
		case <-deadline:
			h.t.Fatalf("not within %s: %s\n%s", limit, what, h.logs)
		case <-ticker.C:
		}
	}
}

// client is a person's HTTP client: HTTP/2 where that is offered.
func (h *hub) client() *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(h.ca)
	rt := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	h.t.Cleanup(rt.CloseIdleConnections)
	return &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (h *hub) user() string {
	return h.sign(h.t, identity.Identity{
		Kind: identity.KindUser, Name: "alice",
		Groups: []string{"dev", "fairlead:admins"},
	})
}

// request makes a user's request, with the target exactly as given.
func (h *hub) request(method, target string, body io.Reader) *http.Request {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url, body)
	if err != nil {
		h.t.Fatal(err)
	}
	req.URL.Opaque = "//" + req.URL.Host + target
	req.Header.Set("Authorization", "Bearer "+h.user())
	return req
}

// get returns status and body.
func (h *hub) do(req *http.Request) (*http.Response, string) {
	h.t.Helper()
	resp, err := h.client().Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp, string(b)
}

// agent is the cluster's end: the real session and HTTP layers, with a handler in the place of
// an API server.
type agent struct {
	session *mux.Session
	done    chan error // Run's error
	kill    context.CancelFunc
}

// connect opens a session as the agent of a cluster. connect returns once the tunnel has it.
func (h *hub) connect(cluster string, api http.HandlerFunc) *agent {
	h.t.Helper()
	before := map[string]bool{} // one of them may end meanwhile
	for _, s := range h.sessions() {
		before[s.GetId()] = true
	}
	a := h.dial(h.url, h.sign(h.t, identity.Identity{Kind: identity.KindAgent, Name: cluster}), api)
	h.await("session of "+cluster, func() bool {
		return slices.ContainsFunc(h.sessions(), func(s *tunnelv1.Session) bool {
			return s.GetCluster() == cluster && s.GetReplica() == h.url && !before[s.GetId()]
		})
	})
	return a
}

func (h *hub) dial(at, token string, api http.HandlerFunc) *agent {
	h.t.Helper()
	return h.dialAs(map[string]string{"version": "v-test", muxhttp.Impersonation: "yes"}, at, token, api)
}

// dialAs opens the session of an agent that says these things of itself.
func (h *hub) dialAs(properties map[string]string, at, token string, api http.HandlerFunc) *agent {
	h.t.Helper()
	hc, err := client.New(client.Config{CAPEM: h.ca})
	if err != nil {
		h.t.Fatal(err)
	}
	tunnels := tunnelv1connect.NewTunnelServiceClient(hc, at,
		append(client.Options(), client.WithToken(identitytest.SendTo(identity.ServiceTunnel, token, consoletest.HubSecret)))...)
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := tunnels.Connect(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	a := &agent{done: make(chan error, 1), kill: cancel}
	if a.session, err = mux.NewAcceptor(&carrier{stream, cancel}, properties); err != nil {
		h.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		a.done <- a.session.Run(ctx)
		cancel()
		_ = stream.CloseResponse()
	})
	running.Go(func() {
		_ = muxhttp.Serve(ctx, a.session, api, slog.New(slog.DiscardHandler))
	})
	h.t.Cleanup(func() { cancel(); running.Wait(); hc.CloseIdleConnections() })
	return a
}

type carrier struct {
	stream *connect.BidiStreamForClientSimple[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]
	cancel context.CancelFunc
}

func (c *carrier) Send(b []byte) error { return c.stream.Send(&tunnelv1.ConnectRequest{Frames: b}) }
func (c *carrier) Receive() ([]byte, error) {
	m, err := c.stream.Receive()
	return m.GetFrames(), err
}
func (c *carrier) Close() error { c.cancel(); return c.stream.CloseRequest() }

// sessions asks the tunnel for its sessions, as a user.
func (h *hub) sessions() []*tunnelv1.Session {
	h.t.Helper()
	hc, err := client.New(client.Config{CAPEM: h.ca})
	if err != nil {
		h.t.Fatal(err)
	}
	defer hc.CloseIdleConnections()
	tunnels := tunnelv1connect.NewTunnelServiceClient(hc, h.url,
		append(client.Options(), client.WithToken(identity.StaticToken(h.user())))...)
	resp, err := tunnels.ListSessions(h.t.Context(), &tunnelv1.ListSessionsRequest{})
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.GetSessions()
}

// tunnels calls the tunnel as somebody.
func (h *hub) tunnels(as identity.Identity) tunnelv1connect.TunnelServiceClient {
	h.t.Helper()
	hc, err := client.New(client.Config{CAPEM: h.ca})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(hc.CloseIdleConnections)
	return tunnelv1connect.NewTunnelServiceClient(hc, h.url, append(client.Options(),
		client.WithToken(identitytest.SendTo(identity.ServiceTunnel, h.sign(h.t, as), consoletest.HubSecret)))...)
}

// id is this replica's.
func (h *hub) id() string {
	h.t.Helper()
	agent := h.dial(h.url, h.sign(h.t, identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}), nil)
	<-agent.session.Ready()
	id := agent.session.Peer().Properties["replica_id"]
	agent.session.Close(mux.CodeNone, "")
	<-agent.session.Done()
	return id
}

// known returns the ids of all replicas that this one knows, and of itself.
func (h *hub) known() []string {
	h.t.Helper()
	resp, err := h.tunnels(identity.Identity{Kind: identity.KindAgent, Name: "edge-1"}).ListReplicas(h.t.Context(),
		&tunnelv1.ListReplicasRequest{})
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.GetReplicaIds()
}

// watchSessions returns a function that waits for the next message.
func (h *hub) watchSessions() func() *tunnelv1.WatchSessionsResponse {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := h.tunnels(identity.Identity{
		Kind: identity.KindUser, Name: "alice",
		Groups: []string{identity.AdminsGroup},
	}).WatchSessions(ctx, &tunnelv1.WatchSessionsRequest{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { cancel(); _ = stream.Close() })
	return func() *tunnelv1.WatchSessionsResponse {
		if !stream.Receive() {
			h.t.Fatalf("the watch ended: %v", stream.Err())
		}
		return stream.Msg()
	}
}

// dialTLS connects as a client that speaks HTTP/1.1.
func (h *hub) dialTLS() *tls.Conn {
	h.t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(h.ca)
	d := tls.Dialer{Config: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	conn, err := d.DialContext(h.t.Context(), "tcp", strings.TrimPrefix(h.url, "https://"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	return conn.(*tls.Conn)
}

// upgradedConn is a connection after its 101.
type upgradedConn struct {
	*tls.Conn
	br *bufio.Reader
}

func (c *upgradedConn) Read(p []byte) (int, error) { return c.br.Read(p) }

// darkRelay passes bytes on to a tunnel until it is told to swallow them, as a dead router does.
type darkRelay struct {
	url  string
	dark chan struct{}
}

func newDarkRelay(t *testing.T, target string) *darkRelay {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &darkRelay{url: "https://" + l.Addr().String(), dark: make(chan struct{})}
	var running sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	pump := func(dst, src net.Conn) {
		buf := make([]byte, 32<<10)
		for {
			n, err := src.Read(buf)
			if err != nil {
				return
			}
			select {
			case <-r.dark:
				continue
			default:
			}
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	running.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", u.Host)
			if err != nil {
				_ = a.Close()
				return
			}
			mu.Lock()
			conns = append(conns, a, b)
			mu.Unlock()
			running.Go(func() { pump(a, b) })
			running.Go(func() { pump(b, a) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return r
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func hasAll(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}
