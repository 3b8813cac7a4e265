package acceptance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/gen/fairlead/delivery/v1/deliveryv1connect"
	"fairlead.dev/gen/fairlead/tunnel/v1/tunnelv1connect"
	"fairlead.dev/platform/agentconfig"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/delivery"
	"fairlead.dev/platform/identity"
)

const joinToken = "a-join-token-that-works-once"

// testHub is a hub at the network's edge: console, distributor and artifacts on one address, in memory.
type testHub struct {
	consolev1connect.UnimplementedIdentityServiceHandler
	deliveryv1connect.UnimplementedDeliveryServiceHandler
	deliveryv1connect.UnimplementedDetailServiceHandler
	deliveryv1connect.UnimplementedViewServiceHandler

	store  *artifact.Store
	server *httptest.Server
	keys   *identity.KeySet
	poll   time.Duration

	mu        sync.Mutex // guards what follows
	cond      *sync.Cond
	cluster   string // the name that the agent joins as
	joined    bool
	token     string
	services  map[string]*deliveryv1.ServiceDelivery
	removed   map[string]bool
	commits   int
	reports   map[string][]*deliveryv1.ServiceReport
	details   []*deliveryv1.ServiceDetail
	deaf      bool                        // The hub takes no details.
	view      *deliveryv1.PushViewRequest // The last push.
	durable   map[string]uint64
	failing   int // Report calls to refuse
	down      bool
	behind    map[string]*deliveryv1.ServiceDelivery // What a distributor knows that may be behind; nil: none is.
	hanging   chan struct{}                          // Downloads wait until it is closed.
	syncs     int
	downloads int
	watchers  map[chan struct{}]bool
	rendering map[string]rendering
	// config is what agents are configured with, and configured what the last agent said of it; standing is that of one
	// that stands by.
	config               *deliveryv1.AgentConfigDelivery
	configured, standing *deliveryv1.AgentConfigState
	capabilities         []deliveryv1.AgentCapability
	clusterUID           string      // That of the cluster which the agent joins as; "": the hub does not say.
	tunnel               *testTunnel // Agents that join are told of it; nil: there is none.
}

func newHub(t *testing.T) *testHub {
	t.Helper()
	store, err := artifact.OpenStore(t.TempDir(), artifact.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := identity.NewKeySet()
	if err != nil {
		t.Fatal(err)
	}
	h := &testHub{
		cluster: "edge", store: store, keys: keys, poll: time.Hour, services: map[string]*deliveryv1.ServiceDelivery{},
		removed: map[string]bool{},
		reports: map[string][]*deliveryv1.ServiceReport{}, durable: map[string]uint64{},
		watchers: map[chan struct{}]bool{}, rendering: map[string]rendering{},
	}
	h.cond = sync.NewCond(&h.mu)
	mux := http.NewServeMux()
	mux.Handle(consolev1connect.NewIdentityServiceHandler(h))
	mux.Handle(deliveryv1connect.NewDeliveryServiceHandler(h))
	mux.Handle(deliveryv1connect.NewDetailServiceHandler(h))
	mux.Handle(deliveryv1connect.NewViewServiceHandler(h))
	mux.HandleFunc(tunnelv1connect.TunnelServiceConnectProcedure, func(w http.ResponseWriter, r *http.Request) {
		h.tunnel.ServeHTTP(w, r)
	})
	mux.Handle(artifact.Path, store.Handler(func(*http.Request, artifact.Digest) error {
		h.mu.Lock()
		h.downloads++
		hanging := h.hanging
		h.mu.Unlock()
		if hanging != nil {
			<-hanging
		}
		return nil
	}))
	h.server = httptest.NewUnstartedServer(h.guard(mux))
	h.server.Config.Protocols = new(http.Protocols)
	h.server.Config.Protocols.SetHTTP1(true)
	h.server.Config.Protocols.SetUnencryptedHTTP2(true)
	h.server.Start()
	t.Cleanup(h.server.Close)
	t.Cleanup(func() { h.setHanging(false) })
	return h
}

// guard answers nobody while the hub is down, and only the agent while it is up.
func (h *testHub) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		down, token := h.down, h.token
		h.mu.Unlock()
		if down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		if r.URL.Path != consolev1connect.IdentityServiceJoinClusterProcedure &&
			r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (h *testHub) endpoints() *consolev1.Endpoints {
	is := &consolev1.Endpoints{Console: h.server.URL, Distributors: []string{h.server.URL}}
	if h.tunnel != nil {
		is.Tunnels = []string{h.server.URL}
	}
	return is
}

func (h *testHub) JoinCluster(_ context.Context,
	r *consolev1.JoinClusterRequest,
) (*consolev1.JoinClusterResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.joined || r.GetJoinToken() != joinToken {
		return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("no such join token"))
	}
	token, signed, err := h.keys.Sign(identity.Identity{
		Kind: identity.KindAgent, Name: h.cluster, ClusterUID: h.clusterUID,
	}, identity.AgentLifetime)
	if err != nil {
		return nil, err
	}
	h.joined, h.token = true, token
	return &consolev1.JoinClusterResponse{
		Token:   &consolev1.Token{Token: token, Id: signed.TokenID, ExpireTime: timestamppb.New(signed.ExpiresAt)},
		Cluster: h.cluster, Endpoints: h.endpoints(),
	}, nil
}

func (h *testHub) RenewToken(context.Context, *consolev1.RenewTokenRequest) (*consolev1.RenewTokenResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &consolev1.RenewTokenResponse{Token: &consolev1.Token{Token: h.token}, Endpoints: h.endpoints()}, nil
}

func (h *testHub) Sync(_ context.Context, r *deliveryv1.SyncRequest) (*deliveryv1.SyncResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.syncs++
	answer := &deliveryv1.SyncResponse{NextPoll: durationpb.New(h.poll)}
	if h.config.GetDigest() != r.GetAgentConfig().GetWanted() {
		answer.AgentConfig = proto.CloneOf(h.config)
	}
	if r.GetAgentConfig().GetStandsBy() {
		h.standing = r.GetAgentConfig()
	} else {
		h.configured, h.capabilities = r.GetAgentConfig(), r.GetAgent().GetCapabilities()
	}
	h.cond.Broadcast()
	services, isBehind := h.services, h.behind != nil
	if isBehind {
		services = h.behind
	}
	wanted := map[string]string{}
	for name, service := range services {
		wanted[name] = service.GetDigest()
	}
	have := map[string]string{}
	for _, one := range r.GetHave() {
		have[one.GetService()] = one.GetDigest()
	}
	switch {
	case r.GetDigest() == delivery.SetDigest(wanted):
		answer.Result = &deliveryv1.SyncResponse_NotModified{NotModified: &deliveryv1.NotModified{}}
		return answer, nil
	case len(have) == 0 && r.GetDigest() != "":
		answer.Result = &deliveryv1.SyncResponse_HaveWanted{HaveWanted: &deliveryv1.HaveWanted{}}
		return answer, nil
	}
	changes := &deliveryv1.Changes{}
	for name, service := range services {
		if have[name] != service.GetDigest() && (have[name] == "" || !isBehind) {
			changes.Services = append(changes.Services, proto.CloneOf(service))
		}
	}
	for name := range have {
		// Other tests share the cluster: what this hub never delivered is none of its business.
		if h.removed[name] && !isBehind {
			changes.Removed = append(changes.Removed, name)
		}
	}
	if isBehind && len(changes.GetServices()) == 0 {
		answer.Result = &deliveryv1.SyncResponse_NotModified{NotModified: &deliveryv1.NotModified{}}
		return answer, nil
	}
	answer.Result = &deliveryv1.SyncResponse_Changes{Changes: changes}
	return answer, nil
}

func (h *testHub) Watch(ctx context.Context, _ *deliveryv1.WatchRequest,
	stream *connect.ServerStream[deliveryv1.WatchResponse],
) error {
	nudges := make(chan struct{}, 1)
	h.mu.Lock()
	h.watchers[nudges] = true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, nudges)
	}()
	event := &deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_Heartbeat{Heartbeat: &deliveryv1.Heartbeat{}}}
	for {
		if err := stream.Send(event); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-nudges:
			if !ok {
				return connect.NewError(connect.CodeUnavailable, errors.New("stopping"))
			}
			event = &deliveryv1.WatchResponse{Event: &deliveryv1.WatchResponse_Nudge{Nudge: &deliveryv1.Nudge{}}}
		}
	}
}

func (h *testHub) Report(_ context.Context, r *deliveryv1.ReportRequest) (*deliveryv1.ReportResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failing > 0 {
		h.failing--
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("not durable"))
	}
	answer := &deliveryv1.ReportResponse{}
	for _, report := range r.GetReports() {
		name := report.GetService()
		if report.GetSequence() > h.durable[name] {
			h.durable[name] = report.GetSequence()
			h.reports[name] = append(h.reports[name], report)
		}
		answer.Acknowledged = append(answer.Acknowledged, &deliveryv1.Acknowledgement{
			Service: name, Sequence: h.durable[name],
		})
	}
	h.cond.Broadcast()
	return answer, nil
}

// push publishes a folder as the next commit of a service, and nudges. push returns the service's digest.
func (h *testHub) push(t *testing.T, service, namespace string, files map[string]string) string {
	t.Helper()
	digest := h.pack(t, files)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commits++
	commit := fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, h.commits, digest)))[:40]
	sent := &deliveryv1.ServiceDelivery{
		Name: service, Namespace: namespace, Source: "git", Path: "apps/hello",
		Artifact: &artifactv1.Artifact{Digest: string(digest)},
		Revision: &artifactv1.Revision{
			Commit: commit, Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		},
	}
	sent.Sync, sent.Rules = h.services[service].GetSync(), h.services[service].GetRules()
	sent.WindowSets, sent.Manual = h.services[service].GetWindowSets(), h.services[service].GetManual()
	sent.Tests, sent.TestRequest, sent.Configuration = h.services[service].GetTests(), h.services[service].GetTestRequest(), h.services[service].GetConfiguration()
	sent.Render, sent.ClusterLabels = h.rendering[service].spec, h.rendering[service].labels
	seal(sent)
	h.services[service] = sent
	if h.behind != nil {
		h.behind[service] = sent
	}
	delete(h.removed, service)
	h.nudge()
	return sent.GetDigest()
}

// sync changes how a service is kept applied, and returns its new digest.
func (h *testHub) sync(service string, spec *deliveryv1.SyncSpec) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	sent := proto.CloneOf(h.services[service])
	sent.Sync = spec
	seal(sent)
	h.services[service] = sent
	h.nudge()
	return sent.GetDigest()
}

// bound changes what a service's project allows, and returns its new digest.
func (h *testHub) bound(service string, rules *deliveryv1.ObjectRules) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	sent := proto.CloneOf(h.services[service])
	sent.Rules = rules
	seal(sent)
	h.services[service] = sent
	h.nudge()
	return sent.GetDigest()
}

// seal gives a delivery its digest.
func seal(sent *deliveryv1.ServiceDelivery) {
	options, err := proto.MarshalOptions{
		Deterministic: true,
	}.Marshal(&deliveryv1.ServiceDelivery{
		Sync: sent.GetSync(), Render: sent.GetRender(), Rules: sent.GetRules(), Manual: sent.GetManual(),
	})
	if err != nil {
		panic(err)
	}
	sent.Digest = delivery.ServiceDigest(delivery.Service{
		Name: sent.GetName(), Namespace: sent.GetNamespace(), Path: sent.GetPath(),
		Artifact: sent.GetArtifact().GetDigest(), Config: sent.GetConfiguration().GetRevision(), Options: string(options),
	})
	if sent.GetTests() == nil && sent.GetTestRequest() == nil && sent.GetWindowSets() == nil {
		return
	}
	sent.ContentDigest = sent.GetDigest()
	tests, err := proto.MarshalOptions{
		Deterministic: true,
	}.Marshal(&deliveryv1.ServiceDelivery{
		Tests: sent.GetTests(), TestRequest: sent.GetTestRequest(), WindowSets: sent.GetWindowSets(),
	})
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(append(tests, sent.GetDigest()...))
	sent.Digest = string(artifact.SumDigest(sum[:]))
}

func (h *testHub) ReportDetails(_ context.Context,
	r *deliveryv1.ReportDetailsRequest,
) (*deliveryv1.ReportDetailsResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.deaf {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("it takes no details"))
	}
	h.details = append(h.details, r.GetDetail())
	h.cond.Broadcast()
	return &deliveryv1.ReportDetailsResponse{}, nil
}

func (h *testHub) PushView(_ context.Context, r *deliveryv1.PushViewRequest) (*deliveryv1.PushViewResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.view = r
	return &deliveryv1.PushViewResponse{}, nil
}

// viewedSince says whether an agent that was started at a time or later has pushed a view.
func (h *testHub) viewedSince(at time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.view.GetTerm() >= uint64(at.UnixMilli())
}

func (h *testHub) setDeaf(deaf bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deaf = deaf
}

// firstDetail is which of all details came first that are of a service and as wanted; -1: none was.
func (h *testHub) firstDetail(service string, wanted func(*deliveryv1.ServiceDetail) bool) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.IndexFunc(h.details,
		func(d *deliveryv1.ServiceDetail) bool { return d.GetService() == service && wanted(d) })
}

// awaitDetail waits for a list about the service that is as wanted.
func (h *testHub) awaitDetail(t *testing.T, service string,
	wanted func(*deliveryv1.ServiceDetail) bool,
) *deliveryv1.ServiceDetail {
	t.Helper()
	begin, stop := h.remind()
	defer stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		for _, d := range slices.Backward(h.details) {
			if d.GetService() == service && wanted(d) {
				return d
			}
		}
		if time.Since(begin) > patience {
			t.Fatalf("service %s: no such detail came. All that came: %v", service, h.details)
		}
		h.cond.Wait()
	}
}

func (h *testHub) pack(t *testing.T, files map[string]string) artifact.Digest {
	t.Helper()
	summary, err := h.store.Build(func(w *artifact.Writer) error {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if err := w.File(name, false, int64(len(files[name])), bytes.NewReader([]byte(files[name]))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return summary.Digest
}

// remove has services removed, all by the same answer.
func (h *testHub) remove(services ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, service := range services {
		delete(h.services, service)
		h.removed[service] = true
	}
	h.nudge()
}

// configure has agents configured by these layers, and returns their digest.
func (h *testHub) configure(layers ...*deliveryv1.AgentLayer) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.config = &deliveryv1.AgentConfigDelivery{Digest: agentconfig.Digest(layers), Layers: layers}
	h.nudge()
	return h.config.GetDigest()
}

// awaitConfig waits until an agent says something of its configuration, of one that stands by or of the one that works.
func (h *testHub) awaitConfig(t *testing.T, of func() *deliveryv1.AgentConfigState,
	wanted func(*deliveryv1.AgentConfigState) bool,
) {
	t.Helper()
	begin, stop := h.remind()
	defer stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for !wanted(of()) {
		if time.Since(begin) > patience {
			t.Fatalf("the agent says nothing else of its configuration than %v", of())
		}
		h.cond.Wait()
	}
}

// forgetConfigured forgets what agents said of their configuration.
func (h *testHub) forgetConfigured() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.configured = nil
}

// streams are those of nudges.
func (h *testHub) streams() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers)
}

// can tells whether the agent said so in its last Sync.
func (h *testHub) can(what deliveryv1.AgentCapability) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.capabilities, what)
}

// working is what the agent that works says of its configuration. The caller holds mu.
func (h *testHub) working() *deliveryv1.AgentConfigState { return h.configured }

// nudge tells every watcher. The caller holds mu.
func (h *testHub) nudge() {
	for nudges := range h.watchers {
		select {
		case nudges <- struct{}{}:
		default:
		}
	}
}

// setDown makes the hub answer nothing, and ends its streams.
func (h *testHub) setDown(down bool) {
	h.mu.Lock()
	h.down = down
	h.mu.Unlock()
	if down {
		h.server.CloseClientConnections()
	}
}

// known is what the hub wants now.
func (h *testHub) known() map[string]*deliveryv1.ServiceDelivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.services)
}

// setBehind makes the hub a distributor that knows this, without a console: it adds what an agent lacks, and nothing
// else. nil: the console is there again.
func (h *testHub) setBehind(knows map[string]*deliveryv1.ServiceDelivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.behind = knows
	h.nudge()
}

func (h *testHub) downloaded() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.downloads
}

// setHanging makes downloads hang, until it is called again.
func (h *testHub) setHanging(hanging bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hanging != nil {
		close(h.hanging)
		h.hanging = nil
	}
	if hanging {
		h.hanging = make(chan struct{})
	}
}

// patience of a test: a busy machine is slow, and a quiet one does not wait this long.
const patience = 5 * time.Minute

// remind wakes callers that wait when their patience has ended.
func (h *testHub) remind() (begin time.Time, stop func()) {
	begin = time.Now()
	timer := time.AfterFunc(patience, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.cond.Broadcast()
	})
	return begin, func() { timer.Stop() }
}

// await waits for a report of the service that is as wanted, and returns it.
func (h *testHub) await(t *testing.T, service string,
	wanted func(*deliveryv1.ServiceReport) bool,
) *deliveryv1.ServiceReport {
	t.Helper()
	begin, stop := h.remind()
	defer stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		reports := h.reports[service]
		if len(reports) > 0 && wanted(reports[len(reports)-1]) {
			return reports[len(reports)-1]
		}
		if time.Since(begin) > patience {
			t.Fatalf("service %s: no such report came. All that came: %v", service, reports)
		}
		h.cond.Wait()
	}
}

// said tells whether the last report is such a one.
func (h *testHub) said(service string, wanted func(*deliveryv1.ServiceReport) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	reports := h.reports[service]
	return len(reports) > 0 && wanted(reports[len(reports)-1])
}

// awaitPhase waits until the service is in a phase with a digest.
func (h *testHub) awaitPhase(t *testing.T, service, digest string, phase deliveryv1.Phase) *deliveryv1.ServiceReport {
	t.Helper()
	return h.await(t, service,
		func(r *deliveryv1.ServiceReport) bool { return r.GetDigest() == digest && r.GetPhase() == phase })
}
