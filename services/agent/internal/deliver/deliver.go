// Package deliver asks the hub what should be in this cluster: one conditional call per poll, and at
// once when a distributor nudges. The hub's answer is on disk before anything is done about it.
package deliver

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/artifact"
	"fairlead.dev/platform/deliveryclient"
	"fairlead.dev/platform/kubename"
	"fairlead.dev/services/agent/internal/desired"
)

// Deps is what the poller works with.
type Deps struct {
	Distributors *deliveryclient.Distributors
	Desired      *desired.Store
	// Orphans lists services that are in the cluster, whether wanted or not: after a loss of the disk
	// the hub has to say which of them are to stay.
	Orphans func() []string
	// Applied is the digest of a service that the cluster has completely; "": it has none, or parts of two, or nobody
	// knows.
	Applied func(service string) string
	// Loaded is closed once Orphans knows: the cluster may answer later than the hub.
	Loaded <-chan struct{}
	// KubernetesVersion of the cluster; "" while unknown.
	KubernetesVersion func() string
	// ClusterProblem is as in deliveryclient.PollDeps.
	ClusterProblem func() string
	AgentVersion   string
	// View and ViewLost are as in deliveryclient.PollDeps.
	View     func() *deliveryv1.ViewState
	ViewLost func()
	// NoViews tells that views are off, and Streams that the poller's Watch runs.
	NoViews, Streams func() bool
	Config           deliveryclient.Config
	// HoldProgress is told for how long the hub wants progress to be kept back.
	HoldProgress func(time.Duration)
	// ReportTurn is called when the hub has time for reports that it put off.
	ReportTurn func()
	// ViewSets are those of the view; nil: the agent keeps none.
	ViewSets deliveryclient.ViewSets
	Tracer   trace.Tracer
	Metrics  prometheus.Registerer
	Log      *slog.Logger
}

// New returns a poller that keeps the wanted state up to date.
func New(deps Deps) *deliveryclient.Poller {
	w := &wanted{Deps: deps}
	return deliveryclient.NewPoller(deliveryclient.PollDeps{
		Distributors: deps.Distributors, Wanted: w, Again: w.again, Loaded: deps.Loaded, KubernetesVersion: deps.KubernetesVersion,
		ClusterProblem: deps.ClusterProblem, AgentVersion: deps.AgentVersion, Capabilities: deps.capabilities, View: deps.View, ViewLost: deps.ViewLost,
		Config: deps.Config, ViewSets: deps.ViewSets, HoldProgress: deps.HoldProgress, ReportTurn: deps.ReportTurn, Streams: deps.Streams,
		Tracer: deps.Tracer, Metrics: deps.Metrics, Log: deps.Log,
	})
}

// capabilities are what the agent can do beside what the first release could.
func (d Deps) capabilities() []deliveryv1.AgentCapability {
	all := []deliveryv1.AgentCapability{
		deliveryv1.AgentCapability_AGENT_CAPABILITY_TESTS, deliveryv1.AgentCapability_AGENT_CAPABILITY_WINDOWS,
		deliveryv1.AgentCapability_AGENT_CAPABILITY_CONFIG,
	}
	if d.NoViews == nil || !d.NoViews() {
		all = append(all, deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEWS)
		if d.ViewSets != nil {
			all = append(all, deliveryv1.AgentCapability_AGENT_CAPABILITY_VIEW_SETS)
		}
	}
	return all
}

// unknown is what a hub is told of a service that the cluster has in a state without a digest.
const unknown = "unknown"

// wanted is the state on disk, as the poller sees it. Of a service that is doubted the last leader may have heard of
// something newer than what a distributor knows that is behind. First such services are asked for without a digest, as
// any of which the disk knows nothing: each distributor delivers what it knows, and that counts where the cluster has
// just this. If the cluster has something else of one, the distributor is asked once more, by what the cluster has: then
// it delivers what differs unless it may be behind, and that counts.
type wanted struct {
	Deps

	// Only the poller's goroutine uses the fields below.

	// isByCluster: the question is by what the cluster has. differs: an answer to the first one differed from that.
	isByCluster, differs bool
	// left counts the doubted services that the log told of last.
	left int
}

// Have is what the agent claims to have. A service that is in the cluster, and of which the disk knows
// nothing, has no digest: the hub either delivers it anew or says that it is to go.
func (w *wanted) Have() map[string]string {
	digests := w.Desired.Digests()
	for _, name := range w.Orphans() {
		if _, want := w.Desired.Get(name); want == desired.Nothing {
			digests[name] = ""
		}
	}
	for _, name := range w.Desired.Doubted() {
		digests[name] = ""
		if w.isByCluster {
			digests[name] = cmp.Or(w.Applied(name), unknown)
		}
	}
	return digests
}

// again tells, after an answer, whether it is time for the question by what the cluster has.
func (w *wanted) again() bool {
	w.isByCluster, w.differs = w.differs, false
	if w.isByCluster {
		return true
	}
	left := w.Desired.Doubted()
	if len(left) > 0 && len(left) != w.left {
		w.Log.Warn("another agent worked before this one, or for another hub, and the hub does not say yet what it wants of some services since: they stay as they are, "+
			"without repairs, until a distributor has heard of them from the console", "services", len(left), "first", left[0])
	}
	w.left = len(left)
	return false
}

// Take checks and keeps what the hub said. A delivery that makes no sense is left out: the others count.
func (w *wanted) Take(changes *deliveryv1.Changes, revision int64) error {
	doubted := w.Desired.Doubted()
	services := make([]desired.Service, 0, len(changes.GetServices()))
	for _, sent := range changes.GetServices() {
		service, err := service(sent)
		if err != nil {
			w.Log.Error("a delivery of the hub can't be used; it is left out", "service", sent.GetName(), "err", err)
			continue
		}
		if _, doubts := slices.BinarySearch(doubted, service.Name); doubts && !w.isByCluster && service.Digest != w.Applied(service.Name) {
			w.differs = true
			continue
		}
		w.Log.Info("the hub wants a service applied", "service", service.Name, "revision", service.Commit, "digest", service.Digest)
		services = append(services, service)
	}
	removed := slices.DeleteFunc(slices.Clone(changes.GetRemoved()),
		func(name string) bool { return !kubename.IsLabel(name) })
	for _, name := range removed {
		w.Log.Info("the hub wants a service removed", "service", name)
	}
	return w.Desired.Update(services, removed, revision)
}

// Revision is of the catalog that what is wanted is from.
func (w *wanted) Revision() int64 { return w.Desired.Revision() }

// request is the id of a test request, which becomes a part of a file name.
func request() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,62}[a-z0-9])?$`) }

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
	case !kubename.IsLabel(sent.GetName()):
		return desired.Service{}, errors.New("its name is no DNS label")
	case !kubename.IsLabel(namespace):
		return desired.Service{}, fmt.Errorf("namespace %q is no DNS label", namespace)
	case sent.GetDigest() == "":
		return desired.Service{}, errors.New("it has no digest")
	case sent.GetTestRequest().GetId() != "" && !request().MatchString(sent.GetTestRequest().GetId()):
		return desired.Service{}, errors.New("the id of its test request is none")
	}
	return desired.Service{
		Name: sent.GetName(), Digest: sent.GetDigest(), Namespace: namespace, Source: sent.GetSource(), Path: sent.GetPath(),
		Commit: sent.GetRevision().GetCommit(), Artifact: digest, Size: sent.GetArtifact().GetSize(),
		Traceparent: sent.GetRevision().GetTraceparent(), Ticket: sent.GetTicket(),
		Render: sent.GetRender(), Sync: sent.GetSync(), ClusterLabels: sent.GetClusterLabels(),
		Configuration: sent.GetConfiguration(), Rules: sent.GetRules(),
		Tests: sent.GetTests(), TestRequest: sent.GetTestRequest(), ContentDigest: sent.GetContentDigest(),
		Windows: windowsOf(sent), Manual: sent.GetManual() || sent.GetSync().GetMode() == deliveryv1.SyncMode_SYNC_MODE_MANUAL,
	}, nil
}

// windowsOf are the windows of a service. The hub leaves its own name out of its own ones.
func windowsOf(sent *deliveryv1.ServiceDelivery) []*deliveryv1.WindowSet {
	sets := sent.GetWindowSets()
	for _, one := range sets {
		one.Name = cmp.Or(one.GetName(), sent.GetName())
	}
	return sets
}
