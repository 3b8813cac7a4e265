// Package acceptance tests the distributor from outside: with a console and gitcaches that do what a test says, and
// agents that are clients of its API.
package acceptance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	"fairlead.dev/gen/fairlead/artifact/v1/artifactv1connect"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/consoletest"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/delivery"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/hubservice"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/localca"
	"fairlead.dev/platform/members"
	"fairlead.dev/platform/server"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/distributor"
)

// patience is how long a test waits for what should take milliseconds.
const patience = 5 * time.Minute

// world is what is around a distributor: a console and a gitcache that do what the test says, over
// real TLS and with real tokens.
type world struct {
	t       *testing.T
	ca      localca.Files
	dir     string // the distributor's
	console *console
	git     *gitcache
	coord   coordination.Coordinator
	client  *http.Client
	poll    time.Duration
	// unsigned is the distributor's switch for an upgrade.
	unsigned identity.Unsigned
	logged   io.Writer // where the distributor's log goes; nil: to the test's, if that is verbose

	tracer trace.TracerProvider // of the distributor; nil: nothing is recorded

	consoleServer, gitServer *remote
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), poll: time.Hour}
	var err error
	if w.ca, err = localca.Ensure(t.TempDir(), "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	if w.client, err = client.New(client.Config{CAFile: w.ca.CAFile}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.CloseIdleConnections)
	if w.coord, err = coordination.Open(""); err != nil {
		t.Fatal(err)
	}
	w.console, w.git = newConsole(t), newGitcache(t)
	w.consoleServer = w.serve(w.console.handler())
	w.gitServer = w.serve(w.git.handler())
	w.join("gitcache-1", w.gitServer.url)
	w.console.Put(consoletest.Cluster("edge-1"), consoletest.Cluster("edge-2"), shop())
	return w
}

func (w *world) join(id, url string) {
	w.t.Helper()
	if err := w.members().Join(context.Background(), "gitcache", coordination.Member{ID: id, URL: url}, time.Hour); err != nil {
		w.t.Fatal(err)
	}
}

// members is the coordination as the hub's services use it.
func (w *world) members() coordination.Coordinator {
	return members.Authenticate(w.coord, members.Config{
		Secret: hubsecret.Text(consoletest.HubSecret),
		Log:    slog.New(slog.DiscardHandler),
	})
}

// remote is a server that can go away and come back at its address.
type remote struct {
	w       *world
	handler http.Handler
	gate    *gate
	url     string
	server  *httptest.Server
}

func (w *world) serve(h http.Handler) *remote {
	w.t.Helper()
	r := &remote{w: w, handler: h, gate: openGate(w.t)}
	r.start()
	w.t.Cleanup(r.stop)
	return r
}

func (r *remote) start() {
	r.w.t.Helper()
	cert, err := tls.LoadX509KeyPair(r.w.ca.CertFile, r.w.ca.KeyFile)
	if err != nil {
		r.w.t.Fatal(err)
	}
	r.server = httptest.NewUnstartedServer(r.handler)
	_ = r.server.Listener.Close()
	r.server.Listener = r.gate.listen()
	r.server.EnableHTTP2 = true
	r.server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	r.server.StartTLS()
	r.url = r.server.URL
}

func (r *remote) stop() {
	if r.server != nil {
		r.server.CloseClientConnections()
		r.server.Close()
		r.server = nil
	}
}

// edge is a distributor that runs.
type edge struct {
	w    *world
	url  string
	stop func()
}

// start runs a distributor on the world's folder and waits until it is ready.
func (w *world) start() *edge {
	w.t.Helper()
	e := w.startUnready()
	await.True(w.t, "the distributor is ready", func() bool { return e.readyz() == http.StatusOK })
	return e
}

// secret is a file with the hub secret.
func (w *world) secret() string {
	w.t.Helper()
	secret := filepath.Join(w.t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(consoletest.HubSecret+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return secret
}

func (w *world) startUnready() *edge {
	w.t.Helper()
	tel := telemetry.Discard()
	if w.tracer != nil {
		tel.Tracer = w.tracer
	}
	s, err := distributor.New(distributor.Config{Config: hubservice.Config{
		Server:  server.Config{Listen: "127.0.0.1:0", CertFile: w.ca.CertFile, KeyFile: w.ca.KeyFile},
		DataDir: w.dir, ConsoleURL: w.consoleServer.url, HubCAFile: w.ca.CAFile, HubSecretFile: w.secret(),
		Unsigned: w.unsigned,
	}, NextPoll: w.poll}, distributor.Deps{Log: w.log(), Telemetry: tel, Coordinator: w.coord})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		w.client.CloseIdleConnections() // HTTP/2 servers wait a second for clients to take a GOAWAY in
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the distributor ended with %v", err)
		}
	})
	w.t.Cleanup(stop)
	return &edge{w: w, url: s.URL(), stop: stop}
}

func (w *world) log() *slog.Logger {
	if w.logged != nil {
		return slog.New(slog.NewJSONHandler(w.logged, nil))
	}
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

func (e *edge) readyz() int {
	code, _ := e.readiness()
	return code
}

// readiness is what /readyz tells an administrator.
func (e *edge) readiness() (code int, text string) {
	resp, err := e.as(identity.Identity{
		Kind: identity.KindUser, Name: "root",
		Groups: []string{identity.AdminsGroup},
	}).http.Get(e.url + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// agent is the agent of a cluster, as far as a distributor sees it.
type agent struct {
	w *world
	t *testing.T
	e *edge
	// token is its credential.
	token string
	rpc   deliveryv1connect.DeliveryServiceClient
	http  *http.Client
	have  map[string]string
	// got is the last delivery of each service.
	got map[string]*deliveryv1.ServiceDelivery
}

func (e *edge) agent(cluster string) *agent {
	return e.as(identity.Identity{Kind: identity.KindAgent, Name: cluster})
}

func (e *edge) as(id identity.Identity) *agent {
	e.w.t.Helper()
	token, _, err := e.w.console.Sign(identitytest.Bind(id))
	if err != nil {
		e.w.t.Fatal(err)
	}
	return e.with(token)
}

func (e *edge) with(token string) *agent {
	src := identitytest.SendTo(identity.ServiceDistributor, token, consoletest.HubSecret)
	return &agent{
		w: e.w, t: e.w.t, e: e, token: token,
		rpc: deliveryv1connect.NewDeliveryServiceClient(e.w.client, e.url,
			append(client.Options(), client.WithToken(src))...),
		http: &http.Client{Transport: client.Authorize(e.w.client.Transport, src)},
		have: map[string]string{}, got: map[string]*deliveryv1.ServiceDelivery{},
	}
}

// proof is what goes with the agent's token.
func (a *agent) proof() string {
	header := http.Header{}
	identitytest.Authorize(a.t, header, a.token, identity.ServiceDistributor)
	return header.Get(identity.ProofHeader)
}

func (a *agent) digest() string { return delivery.SetDigest(a.have) }

func (a *agent) list() []*deliveryv1.ServiceDigest {
	var out []*deliveryv1.ServiceDigest
	for _, name := range slices.Sorted(maps.Keys(a.have)) {
		out = append(out, &deliveryv1.ServiceDigest{Service: name, Digest: a.have[name]})
	}
	return out
}

// ask is one Sync.
func (a *agent) ask(req *deliveryv1.SyncRequest) *deliveryv1.SyncResponse {
	a.t.Helper()
	resp, err := a.rpc.Sync(context.Background(), req)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp
}

// sync asks as an agent does after a nudge, and takes in what comes. The result says whether there was anything.
func (a *agent) sync() bool {
	a.t.Helper()
	resp := a.ask(&deliveryv1.SyncRequest{
		Digest: a.digest(), Have: a.list(), Agent: &deliveryv1.AgentInfo{Version: "v1", KubernetesVersion: "v1.36"},
	})
	c := resp.GetChanges()
	for _, s := range c.GetServices() {
		a.have[s.GetName()], a.got[s.GetName()] = s.GetDigest(), s
	}
	for _, name := range c.GetRemoved() {
		delete(a.have, name)
		delete(a.got, name)
	}
	return c != nil
}

// awaitCommit syncs until a service has a commit.
func (a *agent) awaitCommit(service, commit string) {
	a.t.Helper()
	await.True(a.w.t, service+" is delivered at "+commit, func() bool {
		a.sync()
		return a.got[service].GetRevision().GetCommit() == commit
	})
}

// download gets an artifact and its error.
func (a *agent) download(digest string) ([]byte, error) {
	a.t.Helper()
	d, err := artifact.ParseDigest(digest)
	if err != nil {
		a.t.Fatal(err)
	}
	r, err := artifact.Fetch(context.Background(), a.http, a.e.url, d, 0)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

// mustHave downloads the content of hello and finds what the gitcache has for it.
func (a *agent) mustHave() {
	a.t.Helper()
	want := a.got["hello"].GetArtifact().GetDigest()
	b, err := a.download(want)
	if err != nil || digestOf(b) != artifact.Digest(want) {
		a.t.Fatalf("download hello: %d bytes, %v", len(b), err)
	}
}

func digestOf(b []byte) artifact.Digest {
	sum := sha256.Sum256(b)
	return artifact.SumDigest(sum[:])
}

// watch opens a stream and gives its events until the test ends.
func (a *agent) watch() <-chan *deliveryv1.WatchResponse {
	a.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := a.rpc.Watch(ctx, &deliveryv1.WatchRequest{})
	if err != nil {
		a.t.Fatal(err)
	}
	events := make(chan *deliveryv1.WatchResponse, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(events)
		for stream.Receive() {
			events <- proto.CloneOf(stream.Msg())
		}
		_ = stream.Close()
	}()
	a.t.Cleanup(func() { cancel(); <-done })
	return events
}

// awaitEvent takes events until one is as wanted.
func (a *agent) awaitEvent(events <-chan *deliveryv1.WatchResponse, ok func(*deliveryv1.WatchResponse) bool) {
	a.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case m, open := <-events:
			if !open {
				a.t.Fatal("the stream ended")
			}
			if ok(m) {
				return
			}
		case <-timeout:
			a.t.Fatal("the event never came")
		}
	}
}

func isNudge(m *deliveryv1.WatchResponse) bool  { return m.GetNudge() != nil }
func isGoAway(m *deliveryv1.WatchResponse) bool { return m.GetGoAway() != nil }

// console remembers what it is told.
type console struct {
	*consoletest.Console
	consolev1connect.UnimplementedConfigServiceHandler

	mu      sync.Mutex // guards what follows
	hub     map[string]*consolev1.ServiceHub
	refs    map[string]*consolev1.RefHub // by uid of the source and ref
	seen    map[string]*consolev1.ClusterSeen
	lost    map[string]bool                                 // clusters whose stream broke
	reports map[string]uint64                               // "<cluster>/<service>" -> sequence
	failing error                                           // of Record*
	configs map[string]map[string]*consolev1.AccessedConfig // by uid of the service and revision
	held    map[string][]string                             // by cluster
	views   map[string]*deliveryv1.PushViewRequest
}

func newConsole(t *testing.T) *console {
	t.Helper()
	return &console{
		Console: consoletest.New(t),
		hub:     map[string]*consolev1.ServiceHub{}, refs: map[string]*consolev1.RefHub{},
		seen: map[string]*consolev1.ClusterSeen{}, lost: map[string]bool{}, reports: map[string]uint64{},
		held: map[string][]string{}, views: map[string]*deliveryv1.PushViewRequest{},
	}
}

func (c *console) handler() http.Handler {
	mux := http.NewServeMux()
	c.Handle(mux)
	mux.Handle(consolev1connect.NewStatusServiceHandler(c))
	mux.Handle(consolev1connect.NewConfigServiceHandler(c))
	return mux
}

func (c *console) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing = err
}

func (c *console) RecordReports(_ context.Context,
	req *consolev1.RecordReportsRequest,
) (*consolev1.RecordReportsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing != nil {
		return nil, c.failing
	}
	resp := &consolev1.RecordReportsResponse{}
	for _, cr := range req.GetClusters() {
		acks := &consolev1.ClusterAcknowledgements{}
		for _, r := range cr.GetReports() {
			k := cr.GetCluster() + "/" + r.GetService()
			c.reports[k] = max(c.reports[k], r.GetSequence())
			acks.Acknowledged = append(acks.Acknowledged,
				&deliveryv1.Acknowledgement{Service: r.GetService(), Sequence: c.reports[k]})
		}
		resp.Clusters = append(resp.Clusters, acks)
	}
	return resp, nil
}

func (c *console) RecordHub(_ context.Context, req *consolev1.RecordHubRequest) (*consolev1.RecordHubResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing != nil {
		return nil, c.failing
	}
	for _, s := range req.GetServices() {
		c.hub[s.GetService()] = s
	}
	for _, r := range req.GetRefs() {
		c.refs[r.GetSourceUid()+" "+r.GetRef()] = r
	}
	return &consolev1.RecordHubResponse{}, nil
}

func (c *console) RecordSeen(_ context.Context, req *consolev1.RecordSeenRequest) (*consolev1.RecordSeenResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing != nil {
		return nil, c.failing
	}
	for _, s := range req.GetClusters() {
		if s.GetLost() {
			c.lost[s.GetCluster()] = true
			continue
		}
		c.seen[s.GetCluster()] = s
	}
	return &consolev1.RecordSeenResponse{}, nil
}

// RecordViews keeps the last push of each cluster.
func (c *console) RecordViews(_ context.Context, req *consolev1.RecordViewsRequest) (*consolev1.RecordViewsResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing != nil {
		return nil, c.failing
	}
	out := &consolev1.RecordViewsResponse{}
	for _, push := range req.GetClusters() {
		c.views[push.GetCluster()] = push.GetPush()
		out.Clusters = append(out.Clusters, &deliveryv1.PushViewResponse{})
	}
	return out, nil
}

func (c *console) ApplyFolder(context.Context, *consolev1.ApplyFolderRequest) (*consolev1.ApplyFolderResponse, error) {
	return &consolev1.ApplyFolderResponse{Settled: true}, nil
}

// RecordTokenUses is what tunnels call.
func (c *console) RecordTokenUses(context.Context,
	*consolev1.RecordTokenUsesRequest,
) (*consolev1.RecordTokenUsesResponse, error) {
	return &consolev1.RecordTokenUsesResponse{}, nil
}

func (c *console) RecordHeld(_ context.Context, req *consolev1.RecordHeldRequest) (*consolev1.RecordHeldResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range req.GetClusters() {
		c.held[h.GetCluster()] = h.GetServices()
	}
	return &consolev1.RecordHeldResponse{}, nil
}

func (c *console) heldAt(cluster string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[cluster]
}

func (c *console) hubOf(service string) *consolev1.HubTruth {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.hub[service]
	if !ok || s.GetHub().GetRevision() != nil || s.GetHub().GetDigest() == "" {
		return s.GetHub()
	}
	hub := proto.CloneOf(s.GetHub())
	hub.Revision = c.refs[s.GetSourceUid()+" "+s.GetRef()].GetRevision()
	return hub
}

// shop makes the source of that name with heads: ref, commit, ref, commit...
func shop(heads ...string) *consolev1.Change {
	s := &consolev1.Source{Metadata: consoletest.Meta("shop"), Status: &consolev1.SourceStatus{}}
	for i := 0; i < len(heads); i += 2 {
		s.Status.Heads = append(s.Status.Heads, &consolev1.Head{
			Ref: heads[i],
			Revision: &artifactv1.Revision{
				Commit: heads[i+1], Subject: "subject of " + heads[i+1][:7],
				CommitTime: timestamppb.New(time.Unix(1e9, 0)),
			},
		})
	}
	return &consolev1.Change{Change: &consolev1.Change_Source{Source: s}}
}

func service(name, cluster, path string) *consolev1.Change {
	return &consolev1.Change{Change: &consolev1.Change_Service{Service: &consolev1.Service{
		Metadata: consoletest.Meta(name), Spec: &consolev1.ServiceSpec{Source: "shop", Path: path, Cluster: cluster},
	}}}
}

// commit makes a full commit id of one digit.
func commit(digit string) string { return strings.Repeat(digit, 40) }

// gitcache has folders of commits, and their artifacts.
type gitcache struct {
	store *artifact.Store

	mu       sync.Mutex                  // guards what follows
	folders  map[string]artifact.Summary // "<commit> <path>", and "<commit> <path> +<include> -<ignore>"
	resolves int
	serves   int
	failing  *artifactv1.ResolveError
}

func newGitcache(t *testing.T) *gitcache {
	t.Helper()
	store, err := artifact.OpenStore(t.TempDir(), artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &gitcache{store: store, folders: map[string]artifact.Summary{}}
}

func (g *gitcache) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(artifactv1connect.NewArtifactServiceHandler(g))
	artifacts := g.store.Handler(func(*http.Request, artifact.Digest) error { return nil })
	mux.Handle(artifact.Path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ey") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		g.mu.Lock()
		g.serves++
		g.mu.Unlock()
		artifacts.ServeHTTP(w, r)
	}))
	return mux
}

// commit makes a folder hold one file in a commit.
func (g *gitcache) commit(t *testing.T, commit, path, body string) {
	t.Helper()
	var packed bytes.Buffer
	w := artifact.NewWriter(&packed, artifact.Limits{})
	if err := w.File("manifest.yaml", false, int64(len(body)), strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	sum, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.store.Put(context.Background(), sum.Digest, &packed); err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.folders[commit+" "+path] = sum
}

func (g *gitcache) fail(err *artifactv1.ResolveError) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failing = err
}

func (g *gitcache) counts() (resolves, serves int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.resolves, g.serves
}

func (g *gitcache) Resolve(_ context.Context, req *artifactv1.ResolveRequest) (*artifactv1.ResolveResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	resp := &artifactv1.ResolveResponse{}
	for _, q := range req.GetQueries() {
		g.resolves++
		resp.Results = append(resp.Results, g.result(q))
	}
	return resp, nil
}

func (g *gitcache) result(q *artifactv1.Query) *artifactv1.Result {
	r := g.content(q)
	r.SourceUid = "uid-" + q.GetSource()
	return r
}

func (g *gitcache) content(q *artifactv1.Query) *artifactv1.Result {
	if g.failing != nil {
		return &artifactv1.Result{Result: &artifactv1.Result_Error{Error: g.failing}}
	}
	key := q.GetRevision() + " " + q.GetPath()
	if len(q.GetInclude())+len(q.GetIgnore()) > 0 {
		key += fmt.Sprintf(" +%s -%s", strings.Join(q.GetInclude(), ","), strings.Join(q.GetIgnore(), ","))
	}
	sum, ok := g.folders[key]
	if !ok {
		return &artifactv1.Result{Result: &artifactv1.Result_Error{Error: &artifactv1.ResolveError{
			Reason: artifactv1.ResolveError_REASON_PATH_NOT_FOUND, Message: "no such folder",
		}}}
	}
	return &artifactv1.Result{Result: &artifactv1.Result_Resolved{Resolved: &artifactv1.Resolved{
		Revision: &artifactv1.Revision{Commit: q.GetRevision()},
		Artifact: &artifactv1.Artifact{Digest: string(sum.Digest), Size: sum.Size, Files: int32(sum.Files)},
	}}}
}
