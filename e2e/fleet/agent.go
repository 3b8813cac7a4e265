package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/errgroup"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/delivery"
	platform "fairlead.dev/platform/deliveryclient"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/tunnelclient"
)

// agent is one agent without a cluster.
type agent struct {
	name    string
	spec    *Spec
	stats   *recorder
	sources *platform.Distributors
	content *platform.Content
	http    *http.Client
	reports *reporter
	wake    chan struct{} // there is something to download

	view   viewed
	synced atomic.Int64 // when the hub last answered, in Unix nanoseconds

	mu      sync.Mutex // guards what follows
	have    map[string]string
	last    *deliveryv1.ServiceDelivery // nil: nothing was delivered yet
	waiting []*deliveryv1.ServiceDelivery
}

func newAgent(name, token string, spec *Spec, stats *recorder) (*agent, error) {
	hc, err := client.New(client.Config{CAFile: spec.CAFile})
	if err != nil {
		return nil, err
	}
	authorized := *hc
	if spec.Balanced != "" {
		if authorized.Transport, err = anew(spec.CAFile); err != nil {
			return nil, err
		}
	}
	gitcaches := authorized
	gitcaches.Transport = client.Authorize(authorized.Transport, identitytest.Source(token, identity.ServiceGitcache))
	authorized.Transport = client.Authorize(authorized.Transport, identitytest.Source(token, identity.ServiceDistributor))
	a := &agent{name: name, spec: spec, stats: stats, http: &authorized, wake: make(chan struct{}, 1), have: map[string]string{}}
	a.sources = platform.New(&authorized, nil, append(client.Options(), connect.WithInterceptors(observer{a}))...)
	a.sources.Set(spec.Distributors)
	a.content = &platform.Content{Distributors: a.sources, Gitcaches: func() []string { return spec.Gitcaches }, HTTP: &gitcaches}
	a.reports = newReporter(a.sources)
	return a, nil
}

// anew is a transport with a connection for each request, so that a balancer gives each to another replica.
func anew(caFile string) (http.RoundTripper, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + caFile)
	}
	return &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}, nil
}

// run lives as an agent does until ctx ends.
func (a *agent) run(ctx context.Context, token string, tunnel bool) error {
	defer a.http.CloseIdleConnections()
	poller := platform.NewPoller(platform.PollDeps{
		Distributors: a.sources, Wanted: a, KubernetesVersion: func() string { return "v1.36.0" }, AgentVersion: "simulated",
		Capabilities: a.capabilities, HoldProgress: a.reports.holdProgress, ReportTurn: a.reports.reportTurn, View: a.viewState, ViewLost: func() {},
		Tracer: noop.NewTracerProvider().Tracer(""), Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return poller.Run(ctx) })
	group.Go(func() error { return poller.Watch(ctx) })
	group.Go(func() error { return a.reports.run(ctx) })
	group.Go(func() error { return a.apply(ctx) })
	if tunnel {
		group.Go(func() error { return a.reach(ctx, token) })
	}
	return group.Wait()
}

// Have implements hub.Wanted.
func (a *agent) Have() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.have)
}

// Revision implements hub.Wanted: a simulated agent is not started again.
func (a *agent) Revision() int64 { return 0 }

// Take implements hub.Wanted.
func (a *agent) Take(changes *deliveryv1.Changes, _ int64) error {
	now := time.Now()
	a.mu.Lock()
	for _, s := range changes.GetServices() {
		a.have[s.GetName()] = s.GetDigest()
	}
	for _, name := range changes.GetRemoved() {
		delete(a.have, name)
	}
	a.waiting = append(a.waiting, changes.GetServices()...)
	if len(a.waiting) > 0 {
		a.last = a.waiting[len(a.waiting)-1]
	}
	a.mu.Unlock()
	for _, s := range changes.GetServices() {
		a.stats.arrived(s.GetRevision().GetCommit(), now)
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
	return nil
}

// digest is over all that the agent has.
func (a *agent) digest() string { return delivery.SetDigest(a.Have()) }

// apply does what is left of applying without a cluster: get the content, and say how it goes.
func (a *agent) apply(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.wake:
		}
		a.mu.Lock()
		list := a.waiting
		a.waiting = nil
		a.mu.Unlock()
		for _, s := range list {
			if a.downloads(s) {
				a.download(ctx, s)
			}
			a.reports.set(s, deliveryv1.Phase_PHASE_PROGRESSING)
		}
		if !retry.Sleep(ctx, retry.Between(time.Second, 3*time.Second)) { // as Pods take their time
			return nil
		}
		for _, s := range list {
			a.reports.set(s, deliveryv1.Phase_PHASE_HEALTHY)
		}
	}
}

// downloads decides for a share of the services, always the same ones.
func (a *agent) downloads(s *deliveryv1.ServiceDelivery) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.GetName())) // never fails
	return float64(h.Sum32()%10_000) < a.spec.Downloads*10_000
}

// download gets an artifact as the agent does, until it is there, and throws the verified bytes away.
func (a *agent) download(ctx context.Context, s *deliveryv1.ServiceDelivery) {
	backoff := retry.Backoff{Floor: 200 * time.Millisecond, Max: time.Minute}
	for ctx.Err() == nil {
		begin := time.Now()
		err := a.fetch(ctx, s)
		a.stats.called(ctx, "download", time.Since(begin), err)
		if err == nil || !retry.Sleep(ctx, backoff.Next()) {
			return
		}
	}
}

// again downloads what was delivered last, as an agent does that looks at itself.
func (a *agent) again(ctx context.Context) {
	a.mu.Lock()
	last := a.last
	a.mu.Unlock()
	if last != nil {
		a.download(ctx, last)
	}
}

func (a *agent) fetch(ctx context.Context, s *deliveryv1.ServiceDelivery) error {
	digest, err := artifact.ParseDigest(s.GetArtifact().GetDigest())
	if err != nil {
		return err
	}
	content, err := a.content.Fetch(ctx, digest, s.GetTicket())
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, content)
	a.stats.bytes.Add(n)
	return errors.Join(err, content.Close())
}

// wanted asks once for everything that is meant for the cluster.
func (a *agent) wanted(ctx context.Context) ([]*deliveryv1.ServiceDelivery, error) {
	one, err := a.sources.Current()
	if err != nil {
		return nil, err
	}
	answer, err := one.RPC.Sync(ctx, &deliveryv1.SyncRequest{})
	if err != nil {
		return nil, err
	}
	return answer.GetChanges().GetServices(), nil
}

// reach keeps a tunnel session that nobody uses.
func (a *agent) reach(ctx context.Context, token string) error {
	hc, err := client.New(client.Config{CAFile: a.spec.CAFile})
	if err != nil {
		return err
	}
	r, err := tunnelclient.New(tunnelclient.Config{
		Endpoints: func() []string { return []string{a.spec.Tunnel} }, HTTPClient: hc, Token: identitytest.Source(token, identity.ServiceTunnel),
		Kube: &url.URL{Scheme: "https", Host: "kubernetes.invalid"}, Transport: nobody{}, Version: "simulated", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// nobody is an API server that is not there.
type nobody struct{}

func (nobody) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("a simulated agent has no cluster")
}

// observer times the calls of an agent.
type observer struct{ agent *agent }

func (o observer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		begin := time.Now()
		resp, err := next(ctx, req)
		name := "report"
		if _, ok := req.Any().(*deliveryv1.SyncRequest); ok {
			name = "sync"
			if err == nil {
				o.agent.synced.Store(time.Now().UnixNano())
				if answer, ok := resp.Any().(*deliveryv1.SyncResponse); ok && answer.GetNotModified() != nil {
					name = "sync unchanged"
				}
			}
		}
		o.agent.stats.called(ctx, name, time.Since(begin), err)
		return resp, err
	}
}

func (o observer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return &watched{StreamingClientConn: next(ctx, spec), ctx: ctx, stats: o.agent.stats}
	}
}

func (o observer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// watched counts streams that hear something.
type watched struct {
	connect.StreamingClientConn

	ctx   context.Context
	stats *recorder
	open  bool // used by the reader only
}

func (w *watched) Receive(msg any) error {
	err := w.StreamingClientConn.Receive(msg)
	switch {
	case err == nil && !w.open:
		w.open = true
		w.stats.watching.Add(1)
	case err != nil:
		w.closed()
		if !errors.Is(err, io.EOF) {
			w.stats.called(w.ctx, "watch", 0, fmt.Errorf("stream: %w", err))
		}
	}
	return err
}

func (w *watched) CloseResponse() error {
	w.closed()
	return w.StreamingClientConn.CloseResponse()
}

func (w *watched) closed() {
	if w.open {
		w.open = false
		w.stats.watching.Add(-1)
	}
}
