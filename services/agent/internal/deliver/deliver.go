// Package deliver asks the hub what should be in this cluster: one conditional call per poll, and at
// once when a distributor nudges. What the hub says is on disk before anything is done about it.
package deliver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/delivery"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/hub"
)

const (
	// defaultPoll is used until the hub says otherwise.
	defaultPoll = 2 * time.Minute
	// minPoll and maxPoll bound what the hub may ask for.
	minPoll, maxPoll = time.Second, time.Hour
	// syncTimeout bounds one Sync call.
	syncTimeout = 30 * time.Second
	// retryFloor and retryMax bound the wait after a failure.
	retryFloor, retryMax = 200 * time.Millisecond, 2 * time.Minute
	// silence is how long a Watch stream may be still; heartbeats come every 15 s.
	silence = 45 * time.Second
)

// Deps is what the poller works with.
type Deps struct {
	Distributors *hub.Distributors
	Desired      *desired.Store
	// Orphans lists services that are in the cluster, whether wanted or not: after a loss of the disk
	// the hub has to say which of them are to stay.
	Orphans func() []string
	// Loaded is closed once Orphans knows: the cluster may answer later than the hub.
	Loaded <-chan struct{}
	// KubernetesVersion of the cluster; "" while unknown.
	KubernetesVersion func() string
	AgentVersion      string
	Tracer            trace.Tracer
	Metrics           prometheus.Registerer
	Log               *slog.Logger
}

// Poller keeps the wanted state up to date.
type Poller struct {
	Deps

	nudge  chan struct{} // something changed: sync with `have`
	soon   chan struct{} // something may have been missed: a plain poll
	synced atomic.Bool
	syncs  *prometheus.CounterVec
	last   prometheus.Gauge
}

// New returns a poller; Run starts it.
func New(deps Deps) *Poller {
	p := &Poller{
		Deps: deps, nudge: make(chan struct{}, 1), soon: make(chan struct{}, 1),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fairlead_agent_syncs_total", Help: "Sync calls by result."}, []string{"result"}),
		last:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "fairlead_agent_last_sync_timestamp_seconds", Help: "When the hub last answered a Sync."}),
	}
	deps.Metrics.MustRegister(p.syncs, p.last)
	return p
}

// Run polls until ctx ends.
func (p *Poller) Run(ctx context.Context) error {
	backoff := hub.Backoff{Floor: retryFloor, Max: retryMax}
	loaded := p.Loaded
	for nudged := false; ; {
		wait, err := p.sync(ctx, nudged)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // told to stop
		}
		if err != nil {
			p.syncs.WithLabelValues("error").Inc()
			wait = backoff.Next()
			p.Log.Warn("the hub did not say what to apply; what is applied stays", "err", err, "retry_in", wait)
		} else {
			backoff.Reset()
			p.synced.Store(true)
			p.last.SetToCurrentTime()
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
			nudged = false
		case <-p.soon:
			timer.Stop()
			nudged = false
		case <-loaded:
			timer.Stop()
			loaded, nudged = nil, false
		case <-p.nudge:
			timer.Stop()
			nudged = true
		}
	}
}

// Synced tells whether the hub has answered since the start.
func (p *Poller) Synced() bool { return p.synced.Load() }

// sync asks once, and says when to ask again.
func (p *Poller) sync(ctx context.Context, sendHave bool) (time.Duration, error) {
	ctx, span := p.Tracer.Start(ctx, "agent.sync")
	defer span.End()
	var answer *deliveryv1.SyncResponse
	err := p.Distributors.Try(ctx, func(ctx context.Context, one hub.Distributor) error {
		ctx, cancel := context.WithTimeout(ctx, syncTimeout)
		defer cancel()
		var err error
		answer, err = one.RPC.Sync(ctx, p.request(sendHave))
		if err == nil && answer.GetHaveWanted() != nil {
			answer, err = one.RPC.Sync(ctx, p.request(true))
		}
		return err
	})
	if connect.CodeOf(err) == connect.CodeNotFound {
		return 0, fmt.Errorf("the hub does not know this cluster (any more): apply its Cluster resource again: %w", err)
	}
	if err != nil {
		return 0, fmt.Errorf("sync: %w", err)
	}
	switch result := answer.GetResult().(type) {
	case *deliveryv1.SyncResponse_NotModified:
		p.syncs.WithLabelValues("not_modified").Inc()
	case *deliveryv1.SyncResponse_Changes:
		p.syncs.WithLabelValues("changes").Inc()
		if err := p.take(result.Changes); err != nil {
			return 0, err
		}
	default:
		return 0, errors.New("sync: the hub's answer is neither a change nor the absence of one: is the agent too old?")
	}
	return nextPoll(answer), nil
}

func nextPoll(answer *deliveryv1.SyncResponse) time.Duration {
	if answer.GetNextPoll() == nil {
		return hub.Spread(defaultPoll)
	}
	return hub.Spread(min(max(answer.GetNextPoll().AsDuration(), minPoll), maxPoll))
}

// have is what the agent claims to have. A service that is in the cluster, and of which the disk knows
// nothing, has no digest: the hub either delivers it anew or says that it is to go.
func (p *Poller) have() map[string]string {
	digests := p.Desired.Digests()
	for _, name := range p.Orphans() {
		if _, want := p.Desired.Get(name); want == desired.Nothing {
			digests[name] = ""
		}
	}
	return digests
}

func (p *Poller) request(sendHave bool) *deliveryv1.SyncRequest {
	digests := p.have()
	request := &deliveryv1.SyncRequest{
		Digest: delivery.SetDigest(digests),
		Agent:  &deliveryv1.AgentInfo{Version: p.AgentVersion, KubernetesVersion: p.KubernetesVersion()},
	}
	if sendHave {
		for _, name := range slices.Sorted(maps.Keys(digests)) {
			request.Have = append(request.Have, &deliveryv1.ServiceDigest{Service: name, Digest: digests[name]})
		}
	}
	return request
}

// take checks and keeps what the hub said. A delivery that makes no sense is left out: the others count.
func (p *Poller) take(changes *deliveryv1.Changes) error {
	services := make([]desired.Service, 0, len(changes.GetServices()))
	for _, sent := range changes.GetServices() {
		service, err := service(sent)
		if err != nil {
			p.Log.Error("a delivery of the hub can't be used; it is left out", "service", sent.GetName(), "err", err)
			continue
		}
		_, span := p.Tracer.Start(telemetry.Extract(context.Background(), service.Traceparent), "agent.delivery")
		span.End()
		p.Log.Info("the hub wants a service applied", "service", service.Name, "revision", service.Commit, "digest", service.Digest)
		services = append(services, service)
	}
	removed := slices.DeleteFunc(slices.Clone(changes.GetRemoved()), func(name string) bool { return !label().MatchString(name) })
	for _, name := range removed {
		p.Log.Info("the hub wants a service removed", "service", name)
	}
	return p.Desired.Update(services, removed)
}

// label is a DNS label: service names become file names and label values, namespaces parts of URLs.
func label() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`) }

func service(sent *deliveryv1.ServiceDelivery) (desired.Service, error) {
	digest, err := artifact.ParseDigest(sent.GetArtifact().GetDigest())
	if err != nil {
		return desired.Service{}, fmt.Errorf("artifact: %w", err)
	}
	namespace := sent.GetNamespace()
	if namespace == "" {
		namespace = "default"
	}
	switch {
	case !label().MatchString(sent.GetName()):
		return desired.Service{}, errors.New("its name is no DNS label")
	case !label().MatchString(namespace):
		return desired.Service{}, fmt.Errorf("namespace %q is no DNS label", namespace)
	case sent.GetDigest() == "":
		return desired.Service{}, errors.New("it has no digest")
	}
	return desired.Service{
		Name: sent.GetName(), Digest: sent.GetDigest(), Namespace: namespace, Source: sent.GetSource(), Path: sent.GetPath(),
		Commit: sent.GetRevision().GetCommit(), Artifact: digest, Size: sent.GetArtifact().GetSize(),
		Traceparent: sent.GetRevision().GetTraceparent(),
	}, nil
}
