// Package reconcile brings services into the cluster, keeps an eye on them and takes them out again.
//
// Each service has a keeper: one goroutine that owns the state of the service and follows the table in package machine,
// which spec.md says in words. Its worker does one piece of work at a time beside it, so that the keeper always
// answers. So services cannot hold each other up, and nothing is done twice at once. The work of keepers at the cluster
// is bounded by slots; a keeper that waits (for a retry, for health) holds none.
package reconcile

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/retry"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/agent/internal/answers"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/diff"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/journal"
	"fairlead.dev/services/agent/internal/lookup"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/notice"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/prune"
	"fairlead.dev/services/agent/internal/render"
	"fairlead.dev/services/agent/internal/set"
	"fairlead.dev/services/agent/internal/trial"
	"fairlead.dev/services/agent/internal/watch"
)

const (
	// workers bounds the services that are applied or removed at the same time. Their manifests are
	// in memory meanwhile.
	workers = 4
	// retryFloor and retryMax bound the wait before a service that failed is tried again.
	retryFloor, retryMax = 500 * time.Millisecond, 5 * time.Minute
	// gather is how long news of objects is gathered before the keepers hear of it.
	gather = 100 * time.Millisecond
)

// Artifacts gives the content of a service: a verified tar. Prepare may wait for the hub, for as long as
// ctx lets it; after it Open does not, as long as the disk has room.
type Artifacts interface {
	// Has tells whether the disk has the content, so that there is nothing to wait for.
	Has(service desired.Service) bool
	Prepare(ctx context.Context, service desired.Service) error
	Open(ctx context.Context, service desired.Service) (io.ReadCloser, error)
}

// Reports takes the states of services. Set returns when the state can't be lost any more. Latest is what was
// set last, also before a restart; nil: nothing.
type Reports interface {
	Set(report *deliveryv1.ServiceReport) error
	Latest(service string) *deliveryv1.ServiceReport
}

// Deps is what the keepers work with.
type Deps struct {
	Desired   *desired.Store
	Artifacts Artifacts
	Inventory *inventory.Store
	Journal   *journal.Journal
	// Answers keeps what random functions gave.
	Answers  *answers.Store
	Sets     *set.Store
	Renderer *render.Renderer
	// Scope is what the templates of a service see; Lookup reads the cluster for them, as the service may.
	Scope   func(ctx context.Context, service desired.Service) (render.Scope, error)
	Lookup  func(service desired.Service) lookup.Ask
	Scopes  set.Scopes
	Applier *apply.Applier
	Pruner  *prune.Pruner
	Memory  *memory.Memory
	Watcher *watch.Watcher
	Reports Reports
	Details Details
	Trials  *trial.Runner
	// Compare is the cluster, for dry runs.
	Compare diff.API
	// Environment is what the cluster can do now, as far as templates see it.
	Environment func(ctx context.Context) (render.ClusterScope, error)
	// Metadata reads that of one object.
	Metadata func(ctx context.Context, ref object.Ref) (*metav1.PartialObjectMetadata, error)
	// RequireImpersonation refuses services that name no account to be applied as.
	RequireImpersonation bool
	// Accounts that services may be applied as, as patterns of namespace/name; none: all but reserved ones, see package
	// accounts.
	Accounts []string
	Tracer   trace.Tracer
	// Keep records what is worth it whatever was decided about its trace: see telemetry.Keep.
	Keep    func(ctx context.Context, name string, began time.Time, why string, attrs ...attribute.KeyValue) context.Context
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Controller runs the keepers.
type Controller struct {
	Deps

	turns     *turns
	decisions decisions
	// comparing is the place of the comparison that is made for people, previewing that of the render for one.
	comparing, previewing chan struct{}
	notices               *notice.Notices
	// retired gets a value when keepers have ended.
	retired chan struct{}
	// loaded is closed when the inventories are known.
	loaded  chan struct{}
	metrics metrics

	mu sync.Mutex // guards keepers
	// keepers are those that run, by service.
	keepers map[string]*keeper

	// environment is the last look at what the cluster can do, nil until that makes a difference to somebody. changed:
	// a render found something else since.
	environment atomic.Pointer[look]
	changed     atomic.Bool

	narrower atomic.Pointer[Narrower]
}

type metrics struct {
	applies *prometheus.CounterVec
	seconds prometheus.Histogram
	renders prometheus.Histogram
	pruned  prometheus.Counter
}

// New returns a controller; Run starts it.
func New(deps Deps) *Controller {
	c := &Controller{Deps: deps, turns: newTurns(), comparing: make(chan struct{}, 1), previewing: make(chan struct{}, 1), notices: notice.New(gather), retired: make(chan struct{}, 1), loaded: make(chan struct{}), keepers: map[string]*keeper{}, metrics: metrics{
		applies: telemetry.FromZero(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fairlead_agent_applies_total", Help: "Attempts to apply a service, by result."}, []string{"result"}), "applied", "failed"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "fairlead_agent_apply_seconds", Help: "Duration of attempts to apply a service.", Buckets: prometheus.ExponentialBuckets(0.01, 3, 9)}),
		renders: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "fairlead_agent_render_seconds", Help: "Duration of renders; what did not change is not rendered.", Buckets: prometheus.ExponentialBuckets(0.01, 3, 9)}),
		pruned:  prometheus.NewCounter(prometheus.CounterOpts{Name: "fairlead_agent_pruned_objects_total", Help: "Objects that were removed."}),
	}}
	deps.Inventory.Offer(c.Notice)
	deps.Metrics.MustRegister(c.metrics.applies, c.metrics.seconds, c.metrics.renders, c.metrics.pruned)
	return c
}

// Notice says that something of a service has changed in the cluster. Notice does not block.
func (c *Controller) Notice(service string) { c.notices.Put(service) }

// Loaded is closed once the inventories are known: until then nothing is applied.
func (c *Controller) Loaded() <-chan struct{} { return c.loaded }

// Run starts a keeper for every service of which something is wanted, until ctx ends. Run returns when the last keeper
// has.
func (c *Controller) Run(ctx context.Context) error {
	if !c.loadInventories(ctx) {
		return nil
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.lookAround(ctx) })
	for {
		c.assignKeepers(func(k *keeper) { running.Go(func() { k.run(ctx) }) })
		select {
		case <-ctx.Done():
			return nil
		case <-c.Desired.Changed():
		case <-c.notices.Due():
		case <-c.retired: // the service may have been wanted again just then
		}
	}
}

// assignKeepers sees to it that each service has its keeper, and that each knows what is wanted, and what was noticed.
func (c *Controller) assignKeepers(start func(*keeper)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, k := range c.keepers {
		if k.hasEnded() {
			delete(c.keepers, name)
		}
	}
	for _, name := range c.notices.Take() {
		if k := c.keepers[name]; k != nil {
			k.site.wakeKeeper()
		}
	}
	for _, name := range c.Desired.Names() {
		k := c.keepers[name]
		if k == nil {
			k = newKeeper(c, name)
			c.keepers[name] = k
			start(k)
		}
		k.askLook()
	}
}

// keeperOf returns the keeper of a service, nil if it has none.
func (c *Controller) keeperOf(name string) *keeper {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keepers[name]
}

// loadInventories reads the inventories, for as long as it takes.
func (c *Controller) loadInventories(ctx context.Context) bool {
	backoff := retry.Backoff{Floor: retryFloor, Max: 30 * time.Second}
	for {
		err := c.Inventory.Load(ctx)
		if err == nil {
			c.recallRepairs()
			close(c.loaded)
			return true
		}
		wait := backoff.Next()
		if ctx.Err() == nil {
			c.Log.Error("the cluster can't be read; nothing is applied until it can", "err", err, "retry_in", wait)
		}
		if !retry.Sleep(ctx, wait) {
			return false
		}
	}
}

// recallRepairs takes over which objects were put right after the inventories were written.
func (c *Controller) recallRepairs() {
	services, err := c.Journal.Services()
	for _, service := range services {
		record, ok := c.Inventory.Glance(service)
		if !ok {
			err = errors.Join(err, c.Journal.Forget(service))
			continue
		}
		repairs, problem := c.Journal.Recall(service, record.Repairs)
		err = errors.Join(err, problem)
		for _, one := range slices.Backward(repairs) { // of an object's repairs the last one counts
			c.Memory.Recall(one.Key, one.Sum, one.UID, one.Owned)
		}
	}
	if err != nil {
		c.Log.Warn("repairs of before the restart may be made again", "err", err)
	}
}
