package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	tunnelv1 "fairlead.dev/gen/fairlead/tunnel/v1"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/localca"
	"fairlead.dev/platform/telemetry"
)

// verifier knows tokens by heart.
type verifier map[string]identity.Identity

func (v verifier) Verify(token string) (identity.Identity, error) {
	id, ok := v[token]
	if !ok {
		return identity.Identity{}, identity.ErrInvalid
	}
	id.ExpiresAt = time.Now().Add(time.Hour)
	return id, nil
}

// VerifyProof implements identity.ProofVerifier.
func (verifier) VerifyProof(identity.Identity, string, string) error { return nil }

var tokens = verifier{
	"user":  {Kind: identity.KindUser, Name: "kim"},
	"admin": {Kind: identity.KindUser, Name: "root", Groups: []string{identity.AdminsGroup}},
	"agent": {Kind: identity.KindAgent, Name: "edge-1"},

	"gitcache": {Kind: identity.KindService, Name: identity.ServiceGitcache},
}

func policy() identity.Policy {
	return identity.Policy{
		consolev1connect.ClusterServiceGetClusterProcedure:          identity.RoleUser,
		consolev1connect.ClusterServiceListClustersProcedure:        identity.RoleUser,
		consolev1connect.ClusterServiceUpdateClusterProcedure:       identity.RoleAdmin,
		consolev1connect.ClusterServiceDeleteClusterProcedure:       identity.RoleAdmin,
		consolev1connect.ClusterServiceBatchUpdateClustersProcedure: identity.RoleAdmin,
		consolev1connect.ClusterServiceRenderAgentManifestProcedure: identity.RoleAdmin,
		deliveryv1connect.DeliveryServiceSyncProcedure:              identity.RoleOpen,
		deliveryv1connect.DeliveryServiceWatchProcedure:             identity.RoleAgent,
		deliveryv1connect.DeliveryServiceReportProcedure:            identity.RoleAgent,
		tunnelv1connect.TunnelServiceConnectProcedure:               identity.RoleAgent,
		tunnelv1connect.TunnelServiceListReplicasProcedure:          identity.RoleAgent,
		tunnelv1connect.TunnelServiceListSessionsProcedure:          identity.RoleUser,
		tunnelv1connect.TunnelServiceWatchSessionsProcedure:         identity.RoleUser,
	}
}

// clusters answers GetCluster as the test says.
type clusters struct {
	consolev1connect.UnimplementedClusterServiceHandler
	get func(ctx context.Context, name string) error
}

func (c clusters) GetCluster(ctx context.Context, req *consolev1.GetClusterRequest) (*consolev1.GetClusterResponse, error) {
	if err := c.get(ctx, req.GetName()); err != nil {
		return nil, err
	}
	caller, _ := identity.FromContext(ctx)
	return &consolev1.GetClusterResponse{Cluster: &consolev1.Cluster{Metadata: &consolev1.Metadata{
		Name: req.GetName(),
		Uid:  caller.Name,
	}}}, nil
}

// delivery's Watch sends one heartbeat and stays until its context ends.
type delivery struct {
	deliveryv1connect.UnimplementedDeliveryServiceHandler
}

func (delivery) Watch(ctx context.Context, _ *deliveryv1.WatchRequest,
	stream *connect.ServerStream[deliveryv1.WatchResponse],
) error {
	if err := stream.Send(&deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_Heartbeat{}}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// tunnel's Connect sends back what it gets. Connect stops reading after a frame "stall".
type tunnel struct {
	tunnelv1connect.UnimplementedTunnelServiceHandler
}

func (tunnel) Connect(ctx context.Context, stream *connect.BidiStream[tunnelv1.ConnectRequest, tunnelv1.ConnectResponse]) error {
	for {
		req, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&tunnelv1.ConnectResponse{Frames: req.GetFrames()}); err != nil {
			return err
		}
		if string(req.GetFrames()) == "stall" {
			<-ctx.Done()
			return ctx.Err()
		}
	}
}

func rpcMounts(get func(ctx context.Context, name string) error) []Mount {
	return []Mount{
		RPC(consolev1connect.ClusterServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return consolev1connect.NewClusterServiceHandler(clusters{get: get}, o...)
		}),
		RPC(deliveryv1connect.DeliveryServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return deliveryv1connect.NewDeliveryServiceHandler(delivery{}, o...)
		}),
		RPC(tunnelv1connect.TunnelServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return tunnelv1connect.NewTunnelServiceHandler(tunnel{}, o...)
		}).Lingering(),
	}
}

func fine(context.Context, string) error { return nil }

// syncBuffer is a log that a test may read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// running is a server that serves.
type running struct {
	*Server
	log  *syncBuffer
	stop context.CancelFunc
	done chan struct{} // Closed when Run has returned.
	err  error         // The error that Run returned.
}

func newServer(t *testing.T, cfg Config, mounts ...Mount) (*Server, *syncBuffer) {
	t.Helper()
	return newServerWith(t, cfg, func(*Deps) {}, mounts...)
}

func newServerWith(t *testing.T, cfg Config, change func(*Deps), mounts ...Mount) (*Server, *syncBuffer) {
	t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	log := &syncBuffer{}
	deps := Deps{
		Name: "testing", Log: telemetry.NewLogger(log, slog.LevelDebug, telemetry.FormatText, "testing"),
		Telemetry: telemetry.Discard(),
		Verifier:  tokens, Policy: policy(),
	}
	change(&deps)
	s, err := New(cfg, deps, mounts...)
	if err != nil {
		t.Fatal(err)
	}
	return s, log
}

func run(t *testing.T, s *Server, log *syncBuffer) *running {
	t.Helper()
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Server: s, log: log, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		if <-r.done; r.err != nil {
			t.Errorf("Run: %v", r.err)
		}
	})
	return r
}

func start(t *testing.T, cfg Config, mounts ...Mount) *running {
	t.Helper()
	s, log := newServer(t, cfg, mounts...)
	return run(t, s, log)
}

func httpClient(t *testing.T, cfg client.Config) *http.Client {
	t.Helper()
	hc, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hc.CloseIdleConnections)
	return hc
}

func http1Client(t *testing.T, roots *tls.Config) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: roots, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func as(token string) connect.ClientOption {
	return client.WithToken(identity.StaticToken(token))
}

func getCluster(t *testing.T, s *running, name string, opts ...connect.ClientOption) error {
	t.Helper()
	c := consolev1connect.NewClusterServiceClient(httpClient(t, client.Config{}), s.URL(), opts...)
	_, err := c.GetCluster(t.Context(), &consolev1.GetClusterRequest{Name: name})
	return err
}

func request(t *testing.T, hc *http.Client, method, url, token, body string,
	header ...string,
) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(got)
}

func TestEveryProtocolOverEveryTransport(t *testing.T) {
	t.Parallel()
	files, err := localca.Ensure(t.TempDir(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	plain := start(t, Config{}, rpcMounts(fine)...)
	secure := start(t, Config{CertFile: files.CertFile, KeyFile: files.KeyFile}, rpcMounts(fine)...)
	modern := httpClient(t, client.Config{CAFile: files.CAFile})
	ca, err := os.ReadFile(files.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	tlsConfig := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	tlsConfig.RootCAs.AppendCertsFromPEM(ca)
	for _, transport := range []struct {
		name  string
		hc    *http.Client
		url   string
		http2 bool
	}{
		{"http1", http1Client(t, nil), plain.URL(), false},
		{"h2c", modern, plain.URL(), true},
		{"tls http1", http1Client(t, tlsConfig), secure.URL(), false},
		{"tls h2", modern, secure.URL(), true},
	} {
		for protocol, opt := range map[string]connect.ClientOption{
			"connect": connect.WithClientOptions(), "json": connect.WithProtoJSON(), "get": connect.WithHTTPGet(),
			"grpc": connect.WithGRPC(), "grpcweb": connect.WithGRPCWeb(),
		} {
			if protocol == "grpc" && !transport.http2 {
				continue // gRPC is defined over HTTP/2 only.
			}
			t.Run(transport.name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				callEverything(t, transport.hc, transport.url, transport.http2, opt)
			})
		}
	}
}

// callEverything makes a unary call, opens a server stream, and a bidi stream where that is possible.
func callEverything(t *testing.T, hc *http.Client, url string, bidi bool, opt connect.ClientOption) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	unary := consolev1connect.NewClusterServiceClient(hc, url, opt, as("user"))
	got, err := unary.GetCluster(ctx, &consolev1.GetClusterRequest{Name: "edge-1"})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetCluster().GetMetadata().GetUid() != "kim" {
		t.Errorf("the handler was called by %q", got.GetCluster().GetMetadata().GetUid())
	}
	watch, err := deliveryv1connect.NewDeliveryServiceClient(hc, url, opt, as("agent")).Watch(ctx,
		&deliveryv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if !watch.Receive() {
		t.Fatalf("no message: %v", watch.Err())
	}
	_ = watch.Close()
	if !bidi {
		return
	}
	stream, err := tunnelv1connect.NewTunnelServiceClient(hc, url, opt, as("agent")).Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, frame := range []string{"one", "two"} {
		if err := stream.Send(&tunnelv1.ConnectRequest{Frames: []byte(frame)}); err != nil {
			t.Fatal(err)
		}
		back, err := stream.Receive()
		if err != nil || string(back.GetFrames()) != frame {
			t.Fatalf("sent %q, got %q, %v", frame, back.GetFrames(), err)
		}
	}
	if err := stream.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("end of stream: %v", err)
	}
}

func TestOnlyHealthAnswersWithoutIdentity(t *testing.T) {
	t.Parallel()
	plain := HTTP("/v1/artifacts/", http.NotFoundHandler(), identity.RoleAny)
	raw := Raw("/clusters/", http.NotFoundHandler(), identity.RoleUser)
	s := start(t, Config{}, append(rpcMounts(fine), plain, raw)...)
	hc := httpClient(t, client.Config{})
	for _, path := range []string{"/healthz", "/readyz"} {
		if resp, body := request(t, hc, "GET", s.URL()+path, "", ""); resp.StatusCode != 200 {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	resp, body := request(t, hc, "POST", s.URL()+"/grpc.health.v1.Health/Check", "",
		`{"service":"fairlead.tunnel.v1.TunnelService"}`, "Content-Type", "application/json")
	if resp.StatusCode != 200 || !strings.Contains(body, "SERVING") {
		t.Errorf("grpc.health.v1: %s %s", resp.Status, body)
	}
	closed := []string{
		"/metrics", "/version", "/debug/log", "/debug/pprof/heap", "/v1/artifacts/x", "/clusters/edge-1/api",
		"/clusters//../healthz",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
	}
	for _, p := range s.Procedures() {
		if p.Role != identity.RoleOpen {
			closed = append(closed, p.Name)
		}
	}
	for _, path := range closed {
		for _, token := range []string{"", "made-up"} {
			method := "POST"
			if strings.Count(path, "/") < 2 || strings.HasPrefix(path, "/debug/") {
				method = "GET"
			}
			// The body is no message at all: who reads it before the token would say so.
			resp, body := request(t, hc, method, s.URL()+path, token, "\xff\xff", "Content-Type", "application/proto")
			if resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with token %q: %s %s", path, token, resp.Status, body)
			}
		}
	}
	if len(closed) < 12 {
		t.Errorf("only %d places were tried", len(closed))
	}
}

func TestReadyzTellsReasonsToObserversOnly(t *testing.T) {
	t.Parallel()
	const scraper = "what Prometheus was given"
	file := t.TempDir() + "/metrics.token"
	if err := os.WriteFile(file, []byte(scraper), 0o600); err != nil {
		t.Fatal(err)
	}
	var why atomic.Pointer[error]
	server, log := newServerWith(t, Config{MetricsTokenFile: file}, func(d *Deps) {
		d.Ready = func() error {
			if err := why.Load(); err != nil {
				return *err
			}
			return nil
		}
		d.Note = func() string { return "its catalog is old" }
	})
	s := run(t, server, log)
	hc := httpClient(t, client.Config{})
	tell := func(status int, want map[string]string) {
		t.Helper()
		for token, text := range want {
			if resp, body := request(t, hc, "GET", s.URL()+"/readyz", token, ""); resp.StatusCode != status ||
				strings.TrimSpace(body) != text {
				t.Errorf("/readyz with %q: %s %q, want %q", token, resp.Status, body, text)
			}
		}
	}
	const note, reason = "ok, but its catalog is old", "not ready: 10.0.0.7 refuses"
	tell(http.StatusOK, map[string]string{
		"": "ok", "made-up": "ok", "agent": "ok", "user": "ok", "admin": note,
		"gitcache": note, scraper: note,
	})
	err := errors.New("10.0.0.7 refuses")
	why.Store(&err)
	tell(http.StatusServiceUnavailable, map[string]string{
		"": "not ready", "made-up": "not ready", "agent": "not ready",
		"user": "not ready", "admin": reason, "gitcache": reason, scraper: reason,
	})
}

func TestReasonsForNotBeingReadyAreInTheLog(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	var v readiness
	for _, why := range []error{
		nil, errors.New("no catalog"), errors.New("no catalog"), errors.New("no disk"), nil,
		nil, errors.New("no disk"),
	} {
		v.log(log, why)
	}
	if got := out.String(); strings.Count(got, `"no catalog"`) != 1 || strings.Count(got, `"no disk"`) != 1 ||
		strings.Count(got, "msg=ready") != 1 {
		t.Errorf("the log has:\n%s", got)
	}
}

func TestPolicyDecidesWhoMayCallWhat(t *testing.T) {
	t.Parallel()
	s := start(t, Config{}, append(rpcMounts(fine), HTTP("/x", http.NotFoundHandler(), identity.RoleAgent))...)
	hc := httpClient(t, client.Config{})
	c := consolev1connect.NewClusterServiceClient(hc, s.URL(), as("user"))
	_, err := c.UpdateCluster(t.Context(), &consolev1.UpdateClusterRequest{Cluster: &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: "x"}}})
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("user updates: %v", err)
	}
	c = consolev1connect.NewClusterServiceClient(hc, s.URL(), as("admin"))
	_, err = c.UpdateCluster(t.Context(), &consolev1.UpdateClusterRequest{Cluster: &consolev1.Cluster{Metadata: &consolev1.Metadata{Name: "x"}}})
	if connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Errorf("admin updates: %v", err)
	}
	for path, want := range map[string]int{
		"/x": 403, "/metrics": 403, "/version": 200, "/nothing": 404,
		"/" + consolev1connect.ClusterServiceName + "/Nothing": 404,
	} {
		if resp, _ := request(t, hc, "GET", s.URL()+path, "user", ""); resp.StatusCode != want {
			t.Errorf("user gets %s: %s", path, resp.Status)
		}
	}
	for path, want := range map[string]int{"/x": 404, "/metrics": 403, "/version": 200} {
		if resp, _ := request(t, hc, "GET", s.URL()+path, "agent", ""); resp.StatusCode != want {
			t.Errorf("agent gets %s: %s", path, resp.Status)
		}
	}
}

func TestMetricsTokenOpensMetricsOnly(t *testing.T) {
	t.Parallel()
	const token = "what Prometheus was given"
	file := t.TempDir() + "/metrics.token"
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{MetricsTokenFile: file}, append(rpcMounts(fine),
		HTTP("/x", http.NotFoundHandler(), identity.RoleAny))...)
	hc := httpClient(t, client.Config{})
	for path, want := range map[string]int{
		"/metrics": 200, "/version": 401, "/x": 401,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": 401,
	} {
		if resp, body := request(t, hc, "GET", s.URL()+path, token, ""); resp.StatusCode != want {
			t.Errorf("%s with the token: %s %s", path, resp.Status, body)
		}
	}
	if err := getCluster(t, s, "x", as(token)); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("a call with the token: %v", err)
	}
	for token, want := range map[string]int{
		"": 401, "something else": 401, "agent": 403, "user": 403, "admin": 200,
		"gitcache": 200,
	} {
		if resp, _ := request(t, hc, "GET", s.URL()+"/metrics", token, ""); resp.StatusCode != want {
			t.Errorf("/metrics with %q: %s", token, resp.Status)
		}
	}
	none := start(t, Config{})
	if resp, _ := request(t, hc, "GET", none.URL()+"/metrics", token, ""); resp.StatusCode != 401 {
		t.Errorf("without a metrics token: %s", resp.Status)
	}
	if _, err := New(Config{Listen: "127.0.0.1:0", MetricsTokenFile: file + "s"}, Deps{Name: "testing", Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard(), Verifier: tokens}); err == nil {
		t.Error("serves without the file")
	}
}

func TestOnlyObserversGetTheLogAndProfiles(t *testing.T) {
	t.Parallel()
	const scraper = "what Prometheus was given"
	file := t.TempDir() + "/metrics.token"
	if err := os.WriteFile(file, []byte(scraper), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{MetricsTokenFile: file})
	hc := httpClient(t, client.Config{})
	for _, path := range []string{
		"/debug/log", "/debug/pprof/heap", "/debug/pprof/goroutine?debug=2",
		"/debug/pprof/cpu?seconds=1",
	} {
		for token, want := range map[string]int{
			"": 401, "made-up": 401, scraper: 401, "agent": 403, "user": 403,
			"admin": 200, "gitcache": 200,
		} {
			resp, body := request(t, hc, "GET", s.URL()+path, token, "")
			if resp.StatusCode != want || want == 200 && body == "" {
				t.Errorf("%s with %q: %s, %d bytes", path, token, resp.Status, len(body))
			}
		}
	}
	for path, want := range map[string]int{
		"/debug/pprof/nothing": 404, "/debug/pprof/cpu": 400,
		"/debug/pprof/cpu?seconds=31": 400, "/debug/pprof/": 404, "/debug/vars": 404,
	} {
		if resp, body := request(t, hc, "GET", s.URL()+path, "admin", ""); resp.StatusCode != want {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	s.Server.log.Info("a line")
	if _, body := request(t, hc, "GET", s.URL()+"/debug/log", "admin", ""); !strings.HasSuffix(body, "msg=\"a line\" app=testing\n") {
		t.Errorf("the log: %q", body)
	}
}

// A log and a profile show what people do: the service says of each read who made it, and how it came out.
func TestReadsOfTheLogAndOfProfilesAreTold(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // guards told
	var told []string
	s, log := newServerWith(t, Config{}, func(d *Deps) {
		d.Debugged = func(r *http.Request, code int) {
			id, _ := identity.FromContext(r.Context())
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprint(id.Subject(), " ", r.URL.Path, " ", code))
		}
	})
	at, hc := run(t, s, log), httpClient(t, client.Config{})
	for _, path := range []string{"/debug/log", "/debug/pprof/nothing", "/version"} {
		request(t, hc, "GET", at.URL()+path, "admin", "")
	}
	request(t, hc, "GET", at.URL()+"/debug/log", "user", "") // may not
	who, _ := tokens.Verify("admin")
	mu.Lock()
	defer mu.Unlock()
	// 429 if another test has a profile made.
	if len(told) != 2 || told[0] != who.Subject()+" /debug/log 200" ||
		told[1] != who.Subject()+" /debug/pprof/nothing 404" && told[1] != who.Subject()+" /debug/pprof/nothing 429" {
		t.Errorf("told was %q", told)
	}
}

func TestBadRequestsAreNamed(t *testing.T) {
	t.Parallel()
	s := start(t, Config{}, rpcMounts(fine)...)
	err := getCluster(t, s, "", as("user"))
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "name") {
		t.Errorf("no name: %v", err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		fmt.Fprint(w, n)
	})
	s := start(t, Config{ReadMaxBytes: 100_000}, append(rpcMounts(fine), HTTP("/limited", echo, identity.RoleUser),
		Raw("/raw/", echo, identity.RoleUser))...)
	hc := httpClient(t, client.Config{})

	if err := getCluster(t, s, strings.Repeat("x", 90_000), as("user")); err != nil {
		t.Errorf("message within the limit: %v", err)
	}
	for protocol, opt := range map[string]connect.ClientOption{
		"connect": connect.WithClientOptions(),
		"grpc":    connect.WithGRPC(), "grpcweb": connect.WithGRPCWeb(),
	} {
		for what, opts := range map[string][]connect.ClientOption{
			"message":            {opt},
			"compressed message": {opt, connect.WithSendGzip()},
		} {
			for _, size := range []int{101_000, 1_000_000} {
				if err := getCluster(t, s, strings.Repeat("x", size), append(opts, as("user"))...); connect.CodeOf(err) != connect.CodeResourceExhausted {
					t.Errorf("%s %s of %d: %v", protocol, what, size, err)
				}
			}
		}
	}
	// On a stream every message is bounded, their number is not.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := tunnelv1connect.NewTunnelServiceClient(hc, s.URL(), as("agent")).Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := stream.Send(&tunnelv1.ConnectRequest{Frames: make([]byte, 90_000)}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	_ = stream.Send(&tunnelv1.ConnectRequest{Frames: make([]byte, 101_000)})
	if _, err := stream.Receive(); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("too large a message on a stream: %v", err)
	}
	for path, want := range map[string]int{"/limited": 413, "/raw/x": 200} {
		if resp, body := request(t, hc, "POST", s.URL()+path, "user", strings.Repeat("x", 1_000_000)); resp.StatusCode != want {
			t.Errorf("body of 1 MB to %s: %s %s", path, resp.Status, body)
		}
	}
	if resp, _ := request(t, http1Client(t, nil), "GET", s.URL()+"/healthz", "", "", "X-Big", strings.Repeat("x", 80_000)); resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("header of 80 kB: %s", resp.Status)
	}
	if resp, _ := request(t, hc, "POST", s.URL()+"/grpc.health.v1.Health/Check", "", `{"service":"`+strings.Repeat("x", 10_000)+`"}`, "Content-Type", "application/json"); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("health check of 10 kB from a stranger: %s", resp.Status)
	}
	h := s.http
	if h.ReadHeaderTimeout <= 0 || h.ReadHeaderTimeout > 10*time.Second || h.IdleTimeout <= 0 ||
		h.MaxHeaderBytes <= 0 || h.MaxHeaderBytes > 64<<10 {
		t.Errorf("limits of the HTTP server: %+v", h)
	}
	if h.ReadTimeout != 0 || h.WriteTimeout != 0 {
		t.Error("streams would be ended by a timeout of the HTTP server")
	}
	if h.HTTP2.MaxConcurrentStreams == 0 || h.HTTP2.PingTimeout == 0 || h.HTTP2.SendPingTimeout == 0 {
		t.Errorf("limits of HTTP/2: %+v", h.HTTP2)
	}
}

// Go's server reads what is left of a body after the handler has returned, and waits for it: a stranger
// who announces a body and never sends it would keep a connection for ever.
func TestStrangersDoNotKeepConnections(t *testing.T) {
	t.Parallel()
	s := start(t, Config{}, rpcMounts(fine)...)
	for _, path := range []string{
		consolev1connect.ClusterServiceGetClusterProcedure, "/healthz", "/version",
		"/nothing", "/grpc.health.v1.Health/Check",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{", path)
			answer, err := io.ReadAll(conn)
			if err != nil {
				t.Errorf("the connection stays open after %.40q: %v", answer, err)
			}
		})
	}
}

func TestStalledStreamDoesNotStopOthersOnItsConnection(t *testing.T) {
	t.Parallel()
	s := start(t, Config{}, rpcMounts(fine)...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	hc := httpClient(t, client.Config{})
	c := tunnelv1connect.NewTunnelServiceClient(hc, s.URL(), as("agent"))
	stalled, err := c.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stalled.Send(&tunnelv1.ConnectRequest{Frames: []byte("stall")}); err != nil {
		t.Fatal(err)
	}
	if _, err := stalled.Receive(); err != nil {
		t.Fatal(err)
	}
	stuck := make(chan struct{})
	go func() { // Fills the window of the stream, then blocks.
		defer close(stuck)
		for stalled.Send(&tunnelv1.ConnectRequest{Frames: make([]byte, 1<<20)}) == nil {
		}
	}()
	other, err := c.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 24 { // more than the whole connection's window
		if err := other.Send(&tunnelv1.ConnectRequest{Frames: make([]byte, 1<<20)}); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	// Ending the context would not do: while net/http writes a body it does not look at it.
	_ = other.CloseResponse()
	_ = stalled.CloseResponse()
	<-stuck
}

func TestPanicsAndUnforeseenErrorsGiveNothingAway(t *testing.T) {
	t.Parallel()
	get := func(_ context.Context, name string) error {
		switch name {
		case "panic":
			panic("s3cret")
		case "plain":
			return errors.New("s3cret")
		case "internal":
			return connect.NewError(connect.CodeInternal, errors.New("s3cret"))
		default:
			return connect.NewError(connect.CodeNotFound, errors.New("no such cluster"))
		}
	}
	broken := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("late") {
			w.WriteHeader(200)
			_, _ = w.Write([]byte("half "))
		}
		panic("s3cret")
	})
	s := start(t, Config{}, append(rpcMounts(get), HTTP("/broken", broken, identity.RoleUser))...)
	for _, name := range []string{"panic", "plain", "internal"} {
		err := getCluster(t, s, name, as("user"))
		if connect.CodeOf(err) != connect.CodeInternal || strings.Contains(err.Error(), "s3cret") ||
			!strings.Contains(err.Error(), "trace_id") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := getCluster(t, s, "other", as("user")); connect.CodeOf(err) != connect.CodeNotFound ||
		!strings.Contains(err.Error(), "no such cluster") {
		t.Errorf("chosen error: %v", err)
	}
	hc := httpClient(t, client.Config{})
	if resp, body := request(t, hc, "GET", s.URL()+"/broken", "user", ""); resp.StatusCode != 500 ||
		strings.Contains(body, "s3cret") {
		t.Errorf("HTTP: %s %s", resp.Status, body)
	}
	req, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL()+"/broken?late", nil)
	req.Header.Set("Authorization", "Bearer user")
	if resp, err := hc.Do(req); err == nil {
		if _, err = io.ReadAll(resp.Body); err == nil {
			t.Error("half an answer looks like a whole one")
		}
		resp.Body.Close()
	}
	if !strings.Contains(s.log.String(), "s3cret") || !strings.Contains(s.log.String(), "server_test.go") {
		t.Error("the log does not tell what happened and where")
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	preflight := func(s *running, origin string) *http.Response {
		resp, _ := request(t, httpClient(t, client.Config{}), "OPTIONS", s.URL()+consolev1connect.ClusterServiceGetClusterProcedure, "", "",
			"Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers",
			"authorization,connect-protocol-version,content-type")
		return resp
	}
	open := start(t, Config{AllowedOrigins: []string{"https://ui.example.com"}}, rpcMounts(fine)...)
	resp := preflight(open, "https://ui.example.com")
	if resp.Header.Get("Access-Control-Allow-Origin") != "https://ui.example.com" ||
		!strings.Contains(strings.ToLower(resp.Header.Get("Access-Control-Allow-Headers")), "authorization") {
		t.Errorf("allowed origin: %v", resp.Header)
	}
	if resp := preflight(open, "https://evil.example.com"); resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("foreign origin: %v", resp.Header)
	}
	if resp := preflight(start(t, Config{}, rpcMounts(fine)...), "https://ui.example.com"); resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("no origins configured: %v", resp.Header)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg    Config
		change func(*Deps)
		mounts []Mount
		want   string
	}{
		"every address without TLS":   {cfg: Config{Listen: ":7400"}, want: "--tls-cert"},
		"0.0.0.0 without TLS":         {cfg: Config{Listen: "0.0.0.0:7400"}, want: "--tls-cert"},
		"another address without TLS": {cfg: Config{Listen: "192.0.2.1:7400"}, want: "--plaintext"},
		"a name without TLS":          {cfg: Config{Listen: "localhost.example.com:7400"}, want: "--tls-cert"},
		"no port":                     {cfg: Config{Listen: "localhost"}, want: "host:port"},
		"certificate without key":     {cfg: Config{CertFile: "x"}, want: "--tls-key"},
		"certificate that is missing": {cfg: Config{CertFile: "/nonexistent/x", KeyFile: "/nonexistent/y"}, want: "/nonexistent/x"},
		"no verifier":                 {change: func(d *Deps) { d.Verifier = nil }, want: "authentication"},
		"procedure without policy": {
			change: func(d *Deps) { delete(d.Policy, consolev1connect.ClusterServiceDeleteClusterProcedure) },
			mounts: rpcMounts(fine), want: consolev1connect.ClusterServiceDeleteClusterProcedure,
		},
		"service of another name": {mounts: []Mount{RPC(tunnelv1connect.TunnelServiceName, func(o ...connect.HandlerOption) (string, http.Handler) {
			return deliveryv1connect.NewDeliveryServiceHandler(delivery{}, o...)
		})}, want: "DeliveryService"},
		"service that does not exist": {mounts: []Mount{RPC("fairlead.none.v1.None", func(...connect.HandlerOption) (string, http.Handler) { return "/", nil })}, want: "fairlead.none.v1.None"},
		"two handlers for a path":     {mounts: []Mount{HTTP("/healthz", http.NotFoundHandler(), identity.RoleUser), HTTP("/healthz", http.NotFoundHandler(), identity.RoleUser)}, want: "/healthz"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.cfg.Listen == "" {
				c.cfg.Listen = "127.0.0.1:0"
			}
			deps := Deps{
				Name: "testing", Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard(),
				Verifier: tokens, Policy: policy(),
			}
			if c.change != nil {
				c.change(&deps)
			}
			_, err := New(c.cfg, deps, c.mounts...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one about %q", err, c.want)
			}
		})
	}
	for _, cfg := range []Config{
		{Listen: "127.0.0.1:0"},
		{Listen: "[::1]:0"},
		{Listen: "localhost:0"},
		{Listen: ":0", Plaintext: true},
	} {
		if _, err := New(cfg, Deps{Name: "testing", Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard(), Verifier: tokens}); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

func TestTakenAddressIsNamed(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s, _ := newServer(t, Config{Listen: taken.Addr().String()})
	if err := s.Listen(); err == nil || !strings.Contains(err.Error(), taken.Addr().String()) ||
		!strings.Contains(err.Error(), "testing") {
		t.Errorf("got %v", err)
	}
	if s.URL() != "" {
		t.Errorf("URL of nothing: %q", s.URL())
	}
}

func TestRawPathsAndUpgradesArriveUnchanged(t *testing.T) {
	t.Parallel()
	raw := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprint(w, r.Method, " ", r.RequestURI)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		fmt.Fprint(rw, line)
		_ = rw.Flush()
	})
	s := start(t, Config{}, Raw("/clusters/", raw, identity.RoleUser))
	for _, path := range []string{"/clusters/e/api/v1//x/../y?a=%2F", "/clusters/e/%2e%2e/x%2Fy"} {
		if _, body := request(t, http1Client(t, nil), "PATCH", s.URL()+path, "user", ""); body != "PATCH "+path {
			t.Errorf("sent %q, got %q", path, body)
		}
	}
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /clusters/e/exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer user\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello\n")
	all, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 101") || !strings.HasSuffix(string(all), "hello\n") {
		t.Errorf("got %q, %v", all, err)
	}
}

// A client speaks before it has seen the server's settings, and until then may refer to 4 KiB of fields that it sent.
func TestFirstRequestsOfAConnectionLeanOnHTTP2sDefaults(t *testing.T) {
	t.Parallel()
	s := start(t, Config{}, rpcMounts(fine)...)
	conn := dial(t, s)
	var fields bytes.Buffer
	encoder := hpack.NewEncoder(&fields)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	const requests = 3
	for i := range requests {
		fields.Reset()
		for _, f := range []hpack.HeaderField{
			{Name: ":method", Value: "GET"},
			{Name: ":scheme", Value: "http"},
			{Name: ":authority", Value: "hub"},
			{Name: ":path", Value: "/healthz"},
			{Name: "first", Value: strings.Repeat("1", 1500)},
			{Name: "second", Value: strings.Repeat("2", 1500)},
		} {
			if err := encoder.WriteField(f); err != nil {
				t.Fatal(err)
			}
		}
		if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: fields.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
	}
	for answers := 0; answers < requests; {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := frame.(type) {
		case *http2.GoAwayFrame:
			t.Fatalf("the connection is refused: %v %s", f.ErrCode, f.DebugData())
		case *http2.MetaHeadersFrame:
			if f.PseudoValue("status") != "200" {
				t.Fatalf("answer %v", f.Fields)
			}
			answers++
		}
	}
}
