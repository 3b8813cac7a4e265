// Package reconcile brings services into the cluster, keeps an eye on them and takes them out again.
//
// Each service has a keeper: one goroutine that owns all that is known of it and does one thing at a
// time. So services cannot hold each other up, and nothing is done twice at once. The work of keepers at the cluster is
// bounded by slots; a keeper that waits (for a retry, for health) holds none.
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
	"fairlead.dev/platform/hub"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/platform/window"
	"fairlead.dev/services/agent/internal/access"
	"fairlead.dev/services/agent/internal/answers"
	"fairlead.dev/services/agent/internal/apply"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/diff"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/journal"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/mode"
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
	Lookup  func(service desired.Service) Lookup
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
	// Accounts that services may be applied as, as patterns of namespace/name; none: all but reserved ones, see package accounts.
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

	turns *turns
	// comparing is the place of the comparison that is made for people, previewing that of the render for one.
	comparing, previewing chan struct{}
	notices               *notice.Board
	// retired gets a value when keepers have ended.
	retired chan struct{}
	// loaded is closed when the inventories are known.
	loaded  chan struct{}
	metrics metrics

	mu sync.Mutex // guards keepers
	// keepers are those that run, by service.
	keepers map[string]*keeper

	// environment is the last look at what the cluster can do, nil until that makes a difference to somebody. changed: a render found
	// something else since.
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
	if !c.load(ctx) {
		return nil
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.lookAround(ctx) })
	for {
		c.keep(func(k *keeper) { running.Go(func() { k.run(ctx) }) })
		select {
		case <-ctx.Done():
			return nil
		case <-c.Desired.Changed():
		case <-c.notices.Due():
		case <-c.retired: // the service may have been wanted again just then
		}
	}
}

// keep sees to it that each service has its keeper, and that each knows what is wanted, and what was noticed.
func (c *Controller) keep(start func(*keeper)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, k := range c.keepers {
		if k.ended() {
			delete(c.keepers, name)
		}
	}
	for _, name := range c.notices.Take() {
		if k := c.keepers[name]; k != nil {
			k.poke()
		}
	}
	for _, name := range c.Desired.Names() {
		k := c.keepers[name]
		if k == nil {
			k = newKeeper(c, name)
			c.keepers[name] = k
			start(k)
		}
		k.look()
	}
}

// keeper returns the keeper of a service, nil if it has none.
func (c *Controller) keeper(name string) *keeper {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keepers[name]
}

// load reads the inventories, for as long as it takes.
func (c *Controller) load(ctx context.Context) bool {
	backoff := hub.Backoff{Floor: retryFloor, Max: 30 * time.Second}
	for {
		err := c.Inventory.Load(ctx)
		if err == nil {
			c.recall()
			close(c.loaded)
			return true
		}
		wait := backoff.Next()
		if ctx.Err() == nil {
			c.Log.Error("the cluster can't be read; nothing is applied until it can", "err", err, "retry_in", wait)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}

// recall takes over which objects were put right after the inventories were written.
func (c *Controller) recall() {
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

// keeper looks after one service. Only its own goroutine uses the fields below the line.
type keeper struct {
	controller *Controller

	name   string
	log    *slog.Logger
	wake   chan struct{}
	closed chan struct{}

	// applying is held while something new is applied or removed, and shared by repairs.
	applying sync.RWMutex
	// rendering is held by a repair while it opens what is applied.
	rendering sync.Mutex
	// settled: what is applied is to stay for the moment, so that repairs make sense.
	settled atomic.Bool
	// lacking: repairs need content that is not on the disk.
	lacking atomic.Bool
	// behind names the versions that the streams knew of when values were last read from the cluster; what is newer counts.
	behind atomic.Pointer[string]
	// repair is the last one.
	repair atomic.Pointer[mended]
	// sight is what the last render found that the cluster can do.
	sight atomic.Pointer[sight]
	// imagesSeen names the set whose images may all be pulled, and the registries that say so.
	imagesSeen atomic.Pointer[string]
	// windows are what the service's windows said last.
	windows window.Cache

	mu sync.Mutex // guards seen and impatient
	// seen is what was wanted when the keeper was last woken.
	seen want
	// impatient ends the waits of the step that is under way.
	impatient context.CancelFunc

	// ---

	// doing is what the fields below are about.
	doing   want
	backoff hub.Backoff
	// stuck: the manifests are at fault, and only another revision is worth a try. fault is what is wrong.
	stuck bool
	fault problem
	// announced: the hub knows that this digest is being applied.
	announced bool
	// progress is how far the digest has come, while something is waited for.
	progress *apply.Progress
	// made are the objects that the last attempt sent, for the list of those that are there when it fails.
	made map[object.Key]inventory.Entry
	// again: a hook before the removal failed, and is run again, not before rerun.
	again bool
	rerun time.Time
	// through are the moments of a removal whose hooks have ended, and what is told of those that failed.
	through map[set.Hook]string
	// told is the last problem that was logged, or what is waited for.
	told string
	// notBefore is when what failed is tried again, whatever is noticed until then.
	notBefore time.Time
	// held are the objects that people keep as they are, when nothing else is left to do.
	held []object.Key
	// others holds sentences on definitions of kinds that are left to who has them.
	others []string
	// unwritten is since when the inventory is behind.
	unwritten time.Time
	looks     looks
	// drifts are the objects that stay as others left them, see noteDrifts.
	drifts map[object.Key]drift
	// reasons are why objects are not healthy, see giveReasons.
	reasons map[object.Key]reason
	stance  stance
	// refusal is the sync of single objects that could not be served.
	refusal refusal
	trial   *trial.Trial
	// sources names the versions of the objects that values are from, as the streams had them at the last step.
	sources string
	// recalled: the Secrets that values are from were looked at after the start.
	recalled bool
	// ripens is since when what was just applied is waited to be healthy; zero: it is, or was not applied by this agent.
	ripens time.Time
}

// want is what is wanted of a service, as far as it makes a difference.
type want struct {
	what   desired.Want
	digest string
	// content is the same where only tests differ.
	content string
	// windows are other ones under the same digest when an agent that does not know windows had the service before.
	windows string
}

func wantOf(service desired.Service, what desired.Want) want {
	return want{what: what, digest: service.Digest, content: service.RevisionDigest() + " " + setOf(service).String(), windows: service.WindowsSum()}
}

func newKeeper(c *Controller, name string) *keeper {
	return &keeper{
		controller: c, name: name, log: c.Log.With("service", name),
		wake: make(chan struct{}, 1), closed: make(chan struct{}),
		backoff: hub.Backoff{Floor: retryFloor, Max: retryMax}, looks: newLooks(), trial: c.Trials.Of(name),
	}
}

func (k *keeper) ended() bool {
	select {
	case <-k.closed:
		return true
	default:
		return false
	}
}

// look wakes the keeper if something else is wanted than last time.
func (k *keeper) look() {
	service, what := k.controller.Desired.Get(k.name)
	now := wantOf(service, what)
	k.mu.Lock()
	defer k.mu.Unlock()
	if now == k.seen {
		return
	}
	k.seen = now
	if k.impatient != nil {
		k.impatient()
	}
	k.poke()
}

// poke wakes the keeper.
func (k *keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// patience gives a context that ends when something else is wanted than this.
func (k *keeper) patience(ctx context.Context, current want) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen != current {
		cancel()
	}
	k.impatient = cancel
	return ctx, cancel
}

func (k *keeper) run(ctx context.Context) {
	defer func() {
		k.trial.Close()
		close(k.closed)
		select {
		case k.controller.retired <- struct{}{}:
		default:
		}
	}()
	select {
	case <-ctx.Done():
		return
	case <-k.wake:
	}
	for {
		service, what := k.controller.Desired.Get(k.name)
		if what == desired.Nothing {
			return
		}
		wait := k.step(ctx, service, what)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-k.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// idle is the wait of a keeper that has nothing to do before it is woken.
const idle = 24 * time.Hour

// step does what is to be done now, and says when to look again.
func (k *keeper) step(ctx context.Context, service desired.Service, what desired.Want) time.Duration {
	ctx = access.As(ctx, service.Sync.GetImpersonate())
	current := wantOf(service, what)
	if current != k.doing {
		stuck := k.stuck && what == k.doing.what && current.content == k.doing.content
		k.settled.Store(false)
		k.doing, k.stuck, k.announced, k.progress, k.looks, k.notBefore, k.held = current, stuck, false, nil, newLooks(), time.Time{}, nil
		k.reasons = nil
		k.ripens, k.again, k.rerun, k.through = time.Time{}, false, time.Time{}, map[set.Hook]string{}
		k.controller.Watcher.Unfollow(k.name)
		k.trial.Refollow()
		k.backoff.Reset()
	}
	patience, cancel := k.patience(ctx, current)
	defer cancel()
	if what == desired.Remove {
		k.controller.Watcher.FollowSources(k.name, nil)
		k.stance.verdict, k.stance.shut = mode.Verdict{Apply: true, Repair: true}, refusal{}
		k.applying.Lock()
		defer k.applying.Unlock()
		return k.remove(ctx, patience)
	}
	record, err := k.controller.Inventory.Get(ctx, k.name)
	if err != nil {
		return k.failed(service, record, problem{text: err.Error() + "."})
	}
	if failure := k.controller.nobody(service, service.Sync.GetImpersonate()); failure != nil {
		return k.failed(service, record, *failure.because(staysAsItWas(record)))
	}
	if record, err = k.noteWishes(ctx, service, record); err != nil {
		return k.failed(service, record, *retried(err).because(staysAsItWas(record)))
	}
	if record, err = k.noteAsked(ctx, service, record); err != nil {
		return k.failed(service, record, *retried(err).because(staysAsItWas(record)))
	}
	if record, err = k.callOff(ctx, record); err != nil {
		return k.failed(service, record, *retried(err).because(staysAsItWas(record)))
	}
	if record, err = k.endTests(ctx, service, record); err != nil {
		return k.failed(service, record, *retried(err).because(staysAsItWas(record)))
	}
	record, cleaning := k.trial.Clear(ctx, patience, record)
	wait := min(k.tend(ctx, patience, service, record), k.windowsLook())
	if cleaning > 0 {
		wait = min(wait, cleaning)
	}
	return wait
}

// tend does what is to be done about a service that is wanted.
func (k *keeper) tend(ctx, patience context.Context, service desired.Service, record inventory.Record) time.Duration {
	k.controller.Watcher.SetRules(k.name, service.Sync.GetHealth())
	k.controller.Watcher.FollowSources(k.name, sourcesOf(service))
	k.recallSecrets(ctx, service)
	k.noteSources()
	k.judge(service, record)
	if k.stance.some {
		next, failure := k.some(ctx, patience, service, record)
		if patience.Err() != nil {
			return 0
		}
		k.noteRefusal(service, failure)
		record = next
		k.judge(service, record)
	}
	wait := k.bringAbout(ctx, patience, service, record)
	if k.stance.named { // else no try is made when it is due
		wait = min(wait, k.refusal.look(service))
	}
	return wait
}

// bringAbout applies all of a service, or leaves it as it is, as the verdict says.
func (k *keeper) bringAbout(ctx, patience context.Context, service desired.Service, record inventory.Record) time.Duration {
	if !k.stance.verdict.Apply {
		return k.stand(ctx, patience, service, record)
	}
	if record.Has(service.Digest) && !k.outdated(record.Applied.Environment) && !k.controller.Inventory.Inherits(record) {
		return k.observe(ctx, patience, service, record)
	}
	if k.stuck {
		if k.controller.Reports.Latest(k.name).GetDigest() != service.Digest { // of which only tests are new
			k.failed(service, record, k.fault)
			k.refuseTests(ctx, patience, service, k.told)
		}
		return idle
	}
	if wait := time.Until(k.notBefore); wait > 0 && !k.released() {
		return wait
	}
	wait := k.apply(ctx, patience, service, record)
	if k.stuck {
		k.refuseTests(ctx, patience, service, k.told)
	}
	return wait
}

// released tells that people keep one of the held objects no longer.
func (k *keeper) released() bool {
	return slices.ContainsFunc(k.held, func(key object.Key) bool {
		known, ok := k.controller.Memory.Get(key)
		return !ok || known.State != memory.Held
	})
}

// slot waits for a turn at the cluster.
func (k *keeper) slot(ctx context.Context) (release func(), ok bool) {
	give, err := k.controller.turns.take(ctx)
	return give, err == nil
}
