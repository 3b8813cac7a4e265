// Package owner runs one loop per source that this replica owns: take the lease, claim an epoch from the
// console, then poll, fetch and publish until the lease is lost, the source is deleted or somebody
// with a higher epoch has taken over.
//
// Invariants: what is published was fetched and is durable in the mirror, or was published before; a
// head never vanishes because upstream failed; what has to be signed was verified before it is published and
// before its submodules are asked for; a refused publish ends the tenure; without the console polling goes
// on and what was learned is published later.
package owner

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/platform/hubsecret"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/gitcache/internal/cloud"
	"fairlead.dev/services/gitcache/internal/combination"
	"fairlead.dev/services/gitcache/internal/fetch"
	"fairlead.dev/services/gitcache/internal/fetch/buckets"
	"fairlead.dev/services/gitcache/internal/fetch/chartrepo"
	"fairlead.dev/services/gitcache/internal/fetch/registry"
	"fairlead.dev/services/gitcache/internal/metrics"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
)

const (
	// followPause gathers changes of the catalog: each costs a look at all sources, 5 ms for 1,000 of them,
	// and every commit of any is one.
	followPause = 100 * time.Millisecond
	// goneEvery is how often it is looked whether mirrors of sources that are gone can go.
	goneEvery = 10 * time.Minute
	// DefaultTTL of a lease: how long a source is without an owner after a replica died.
	DefaultTTL = 15 * time.Second
)

// Config of an Owner.
type Config struct {
	// Replica is this replica's name; unique.
	Replica string
	TTL     time.Duration // of leases; 0: DefaultTTL
	Dir     string        // for temporary files; empty: the system's
}

// Placement says which replica should own what.
type Placement interface {
	// Place is where this replica stands among those that may own a source, from 0; negative: it may not.
	Place(uid string) int
}

// Clouds give logins by the gitcache's own identity.
type Clouds interface {
	Registry(ctx context.Context, in cloud.Name, host string) (cloud.Login, error)
	Bucket(ctx context.Context, in cloud.Name, host string) (cloud.Login, error)
	// Forget drops a login that the host does not take.
	Forget(in cloud.Name, host string)
}

// Deps of an Owner.
type Deps struct {
	Leases    coordination.Leases
	Placement Placement
	Catalog   Catalog
	Console   Console
	Fetcher   fetch.Fetcher
	Charts    chartrepo.Fetcher
	Artifacts registry.Fetcher
	Buckets   buckets.Fetcher
	// Secret seals what is made of several sources.
	Secret *hubsecret.File
	// OpenPart reads the artifact of a folder of a source, wherever it is, for combinations of several sources. Errors
	// are in words for the owner of a service.
	OpenPart func(ctx context.Context, q combination.PartQuery) (io.ReadCloser, error)
	// Clouds log in at registries and buckets.
	Clouds Clouds
	// Signatures of charts and artifacts.
	Signatures fetch.SignatureFetcher
	Mirrors    *mirror.Mirrors
	// Warm brings what other replicas have of a source and is missing here, before upstream is asked for
	// it, and tells whether anything came. Warm ends with its context. nil: nobody has anything.
	Warm func(ctx context.Context, uid, name string) (news bool)
	// Kept is told when mirrors of sources that are gone may have been removed; nil: nobody cares.
	Kept func()
	// Turned is told when this replica came to own a source, or gave it back; nil: nobody cares.
	Turned func()
	// Answered tells the other replicas that a host answers again, whose sources they may own; nil: there are none.
	Answered func(ctx context.Context, host string) error
	Metrics  *metrics.Set
	Tracer   trace.Tracer
	Log      *slog.Logger
}

// Owner keeps a loop per source of the catalog.
type Owner struct {
	cfg    Config
	deps   Deps
	upkeep chan struct{} // slots

	// Of the last removal of mirrors, for Run's goroutine only: the sources that there were, and how many
	// mirrors of others are kept for a while.
	kept    map[string]bool
	keptAt  time.Time
	waiting int

	mu    sync.Mutex // guards what follows; each loop guards itself
	loops map[string]*loop
	// answered are the hosts of which the replicas know that they answer again, until one leaves another poll without
	// an answer.
	answered map[string]bool
}

// New makes an owner of nothing yet.
func New(cfg Config, deps Deps) *Owner {
	if cfg.TTL <= 0 {
		cfg.TTL = DefaultTTL
	}
	if deps.Warm == nil {
		deps.Warm = func(context.Context, string, string) bool { return false }
	}
	if deps.Kept == nil {
		deps.Kept = func() {}
	}
	if deps.Answered == nil {
		deps.Answered = func(context.Context, string) error { return nil }
	}
	if deps.Turned == nil {
		deps.Turned = func() {}
	}
	return &Owner{
		cfg: cfg, deps: deps, loops: map[string]*loop{}, answered: map[string]bool{},
		upkeep: make(chan struct{}, upkeepers),
	}
}

// Run follows the catalog until ctx ends. Run returns after all loops did.
func (o *Owner) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	gone := time.NewTicker(goneEvery)
	defer gone.Stop()
	for {
		o.followCatalog(ctx, &running)
		if !retry.Sleep(ctx, followPause) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.deps.Catalog.Changed():
		case <-gone.C:
		}
	}
}

// followCatalog makes the loops those of the catalog.
func (o *Owner) followCatalog(ctx context.Context, running *sync.WaitGroup) {
	sources, known, live := o.deps.Catalog.Sources()
	if !known {
		return
	}
	present := map[string]bool{}
	for _, s := range sources {
		present[s.UID] = true
		o.assignSource(ctx, s, running)
	}
	for _, l := range o.takeOut(present) {
		l.cancel()
		<-l.done
		o.deps.Log.InfoContext(ctx, "source was deleted", "source", l.currentSource().Name)
	}
	// A source that a memory of the catalog does not know may exist all the same.
	if live && (!maps.Equal(present, o.kept) || o.waiting > 0 && time.Since(o.keptAt) >= goneEvery) {
		o.removeMirrors(ctx, present)
	}
}

// removeMirrors removes the mirrors of sources that are gone for a while.
func (o *Owner) removeMirrors(ctx context.Context, present map[string]bool) {
	removed, waiting, err := o.deps.Mirrors.Keep(present)
	o.deps.Kept()
	if err == nil {
		o.kept, o.keptAt = present, time.Now()
	} else {
		o.deps.Log.WarnContext(ctx, "mirrors of deleted sources are still there", "err", err)
	}
	if waiting > o.waiting {
		o.deps.Log.InfoContext(ctx, "mirrors of deleted sources are kept for some hours, in case that they come back", "mirrors", waiting)
	}
	o.waiting = waiting
	if removed > 0 {
		o.deps.Log.InfoContext(ctx, "removed mirrors of deleted sources", "mirrors", removed)
	}
}

func (o *Owner) assignSource(ctx context.Context, s source.Source, running *sync.WaitGroup) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l, ok := o.loops[s.UID]; ok {
		l.changeSource(s)
		return
	}
	l := newLoop(o, s)
	ctx, l.cancel = context.WithCancel(ctx)
	o.loops[s.UID] = l
	running.Go(func() {
		defer close(l.done)
		l.run(ctx)
	})
}

func (o *Owner) takeOut(present map[string]bool) []*loop {
	o.mu.Lock()
	defer o.mu.Unlock()
	var gone []*loop
	for uid, l := range o.loops {
		if !present[uid] {
			gone = append(gone, l)
			delete(o.loops, uid)
		}
	}
	return gone
}

// Refresh makes the source be polled now if it is owned here; false if it is not.
func (o *Owner) Refresh(uid string) bool {
	l := o.loopOf(uid)
	return l != nil && l.askPoll()
}

// wakeHost has the sources of a host polled whose last poll did not get through to it.
func (o *Owner) wakeHost(host string, but *loop) {
	for _, l := range o.allLoops() {
		if l == but || host == "" || !l.isAway() || hostOf(l.currentSource().URL) != host {
			continue
		}
		select {
		case l.back <- struct{}{}:
		default:
		}
	}
}

// announceSpread is over how long replicas spread the polls of sources whose host answers another replica again.
const announceSpread = 5 * time.Second

// cutOff notes an outage of a host that begins or goes on: its end is announced again.
func (o *Owner) cutOff(host string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.answered, host)
}

// knowAnswered notes that all replicas know of the end of a host's outage; false: they knew.
func (o *Owner) knowAnswered(host string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if host == "" || o.answered[host] {
		return false
	}
	o.answered[host] = true
	return true
}

// announceHost tells the other replicas, once per outage, that a host answers again. Without the bus they find out by
// their own polls.
func (o *Owner) announceHost(ctx context.Context, host string) {
	if !o.knowAnswered(host) {
		return
	}
	if err := o.deps.Answered(ctx, host); err != nil && ctx.Err() == nil {
		o.deps.Log.DebugContext(ctx, "other replicas were not told that a host answers again", "host", host, "err", err)
	}
}

// HostAnswered has the sources of a host polled that it did not answer, for it answers another replica again: after a
// random part of announceSpread, so that the host does not meet all replicas at once. HostAnswered returns then. A host
// that no source of this replica waits for is passed over.
func (o *Owner) HostAnswered(ctx context.Context, host string) {
	waits := func(l *loop) bool { return l.isAway() && hostOf(l.currentSource().URL) == host }
	if !slices.ContainsFunc(o.allLoops(), waits) || !o.knowAnswered(host) {
		return
	}
	if retry.Sleep(ctx, retry.Between(0, announceSpread)) {
		o.wakeHost(host, nil)
	}
}

// State is what is known of an owned source right now.
type State struct {
	Owned              bool
	Epoch              int64
	LastPoll, NextPoll time.Time
	Heads              []mirror.Head
	Problem            source.Problem
	// StaleSince is since when upstream has not answered as it should; zero: the last poll went well.
	StaleSince time.Time
	// UpstreamRequests in the last hour, by this replica.
	UpstreamRequests int
	// The size of the mirror on the disk.
	MirrorBytes int64
	MirrorPacks int
}

// State tells what is known of a source; false if it is not in the catalog.
func (o *Owner) State(uid string) (State, bool) {
	l := o.loopOf(uid)
	if l == nil {
		return State{}, false
	}
	return l.currentState(), true
}

func (o *Owner) loopOf(uid string) *loop {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.loops[uid]
}

func (o *Owner) allLoops() []*loop {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Values(o.loops))
}

// Totals counts for metrics: sources known and owned, those with a problem of more than missing refs, and the age of
// the oldest good poll of an owned source.
type Totals struct {
	Known, Owned, Problems int
	Stale                  int // their last poll failed
	MirrorBytes            int64
	OldestPoll             time.Duration
}

// Totals counts now.
func (o *Owner) Totals() Totals {
	loops := o.allLoops()
	t := Totals{Known: len(loops)}
	for _, l := range loops {
		s, good := l.currentState(), l.lastGood()
		if !s.Owned {
			continue
		}
		t.Owned++
		if s.Problem.IsRefused() {
			t.Problems++
		}
		if !s.StaleSince.IsZero() {
			t.Stale++
		}
		t.MirrorBytes += s.MirrorBytes
		t.OldestPoll = max(t.OldestPoll, time.Since(good))
	}
	return t
}

// RegisterTotals adds gauges that are counted when they are asked for.
func RegisterTotals(r prometheus.Registerer, o *Owner) error {
	gauge := func(name, help string, value func(Totals) float64) error {
		return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(o.Totals()) }))
	}
	return errors.Join(
		gauge("fairlead_gitcache_sources", "Sources in the catalog.", func(t Totals) float64 { return float64(t.Known) }),
		gauge("fairlead_gitcache_sources_owned", "Sources whose lease this replica holds.", func(t Totals) float64 { return float64(t.Owned) }),
		gauge("fairlead_gitcache_sources_with_problem",
			"Owned sources that have a problem, other than refs that upstream does not have.", func(t Totals) float64 { return float64(t.Problems) }),
		gauge("fairlead_gitcache_sources_stale", "Owned sources whose last poll failed.", func(t Totals) float64 { return float64(t.Stale) }),
		gauge("fairlead_gitcache_mirrors_bytes", "Size of the packs of owned sources.", func(t Totals) float64 { return float64(t.MirrorBytes) }),
		gauge("fairlead_gitcache_oldest_poll_age_seconds", "Age of the oldest last good poll of an owned source.",
			func(t Totals) float64 { return t.OldestPoll.Seconds() }),
	)
}

// stepsDown tells errors that end a tenure as they should from those that are a fault.
func stepsDown(err error) bool { return errors.Is(err, ErrStale) || errors.Is(err, ErrGone) }
