// Package hold keeps in clusters what the catalog may have forgotten.
//
// A console's database may have been put back to an earlier state: its catalog lacks what was made since. The console
// says so when it knows, and then nothing is removed anywhere. Where it does not know, an agent that has seen a later
// catalog than there is makes it plain, for its own cluster only: an agent may say what it likes. The console is told
// of held services, which go when a person confirms it; a service that is made again is not held any more.
package hold

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/distributor/internal/plan"
)

const (
	// maxTold and maxServices bound one call: by the console's own limit, and well below how large it may be.
	maxTold, maxServices = 1000, 20_000
	// retryTime is how long to wait after the console did not take it, whatever else there is to tell then.
	retryTime   = 5 * time.Second
	callTimeout = 15 * time.Second
)

// Console is told what is held.
type Console interface {
	RecordHeld(ctx context.Context, req *consolev1.RecordHeldRequest) (*consolev1.RecordHeldResponse, error)
}

// Gate stands before removals. A Gate is safe for concurrent use.
type Gate struct {
	console  Console
	removals func() catalog.Removals
	has      func(cluster, service string) bool
	log      *slog.Logger
	signal   chan struct{} // capacity 1

	mu       sync.Mutex           // guards what follows
	clusters map[string]*doubtful // with something that is held
	here     map[string]struct{}  // whose agents were told of here last: the console knows what is held of them
	untold   map[string]struct{}
	last     catalog.Removals
}

// doubtful is a cluster that keeps services.
type doubtful struct {
	services []string // in order
	// claimed: its agent had seen a later catalog than there was, before this confirmation. That counts until all of
	// services are made again, whatever the agent finds in the cluster meanwhile: it may have lost its disk.
	claimed bool
	before  string
}

func (c *doubtful) held(is catalog.Removals) bool {
	return is.Held || c.claimed && c.before == is.Confirmation
}

// New returns a gate that asks whether removals are held, and whether the catalog has a service for a cluster. Run tells
// the console.
func New(console Console, removals func() catalog.Removals, has func(cluster, service string) bool, log *slog.Logger) *Gate {
	return &Gate{
		console: console, removals: removals, has: has, log: log, signal: make(chan struct{}, 1),
		clusters: map[string]*doubtful{}, here: map[string]struct{}{}, untold: map[string]struct{}{},
	}
}

// Pass takes from an answer what is not to be removed now. claimed says that the agent has seen a later catalog than
// there is.
func (g *Gate) Pass(cluster string, d plan.Difference, claimed bool) plan.Difference {
	if d.HaveWanted || d.Behind {
		return d // the difference removes nothing, and nothing is known of removals
	}
	is := g.removals()
	if !is.Known {
		return d // an older console
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.clusters[cluster]
	if was == nil && len(d.Removed) == 0 && (d.Pending || is.Waiting.Has(cluster)) {
		// A removal may wait for content, or another distributor may have told the console of one: what that knows stays.
		if claimed && d.Pending {
			d.Revision = 0 // see below
		}
		return d
	}
	if was == nil && is.Waiting.Has(cluster) { // by what another distributor was told
		was = &doubtful{claimed: true, before: is.Confirmation}
	}
	now := &doubtful{services: d.Removed, claimed: claimed, before: is.Confirmation}
	if was != nil && was.claimed {
		now.claimed, now.before = true, was.before
	}
	if was != nil && (was.claimed || d.Pending && was.held(is)) { // while content is awaited d.Removed is empty
		now.services = g.lacking(cluster, was.services, d.Removed)
	}
	if len(now.services) == 0 || !now.held(is) {
		g.setDoubtful(cluster, nil)
		return d
	}
	g.setDoubtful(cluster, now)
	if claimed { // without a revision the agent keeps the one that it has seen, which is its claim at other distributors
		d.Revision = 0
	}
	if len(d.Removed) > 0 {
		d.Removed, d.None = nil, len(d.Changed) == 0
	}
	return d
}

// lacking are the services that were held and that the catalog does not have still, with those that would be removed
// now.
func (g *Gate) lacking(cluster string, were, removed []string) []string {
	were = slices.DeleteFunc(slices.Clone(were), func(service string) bool { return g.has(cluster, service) })
	return slices.Compact(slices.Sorted(slices.Values(append(were, removed...))))
}

// setDoubtful is called with mu held.
func (g *Gate) setDoubtful(cluster string, now *doubtful) {
	var was, is []string
	if c := g.clusters[cluster]; c != nil {
		was = c.services
	}
	if delete(g.clusters, cluster); now != nil {
		g.clusters[cluster], is = now, now.services
	}
	_, here := g.here[cluster]
	g.here[cluster] = struct{}{}
	if here && slices.Equal(was, is) {
		return
	}
	g.untold[cluster] = struct{}{}
	g.wake()
}

// Moved says that a cluster's agent came, or went and may be at another distributor, which tells the console since
// then: the console is told of what is held when the agent syncs here again.
func (g *Gate) Moved(cluster string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.here, cluster)
}

// Forget drops what is known of clusters that left the catalog.
func (g *Gate) Forget(exists func(cluster string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gone := func(cluster string) bool { return !exists(cluster) }
	maps.DeleteFunc(g.here, func(cluster string, _ struct{}) bool { return gone(cluster) })
	maps.DeleteFunc(g.clusters, func(cluster string, _ *doubtful) bool { return gone(cluster) })
}

func (g *Gate) wake() {
	select {
	case g.signal <- struct{}{}:
	default:
	}
}

// Changed is called when the console said something else about removals. Changed returns the clusters that hold
// services which are not held any more: their agents do not know yet. The others are told to the console anew: it may
// have lost them.
func (g *Gate) Changed() (released map[string]struct{}) {
	is := g.removals()
	is.Waiting = nil // of no cluster whose services are held here
	g.mu.Lock()
	defer g.mu.Unlock()
	if is == g.last {
		return nil
	}
	g.last = is
	released = map[string]struct{}{}
	for name, c := range g.clusters {
		if !c.held(is) {
			released[name] = struct{}{}
		} else if _, here := g.here[name]; here {
			g.untold[name] = struct{}{}
		}
	}
	g.wake()
	return released
}

// Run tells the console until ctx ends.
func (g *Gate) Run(ctx context.Context) error {
	for {
		if err := g.tell(ctx); err != nil && ctx.Err() == nil {
			g.log.InfoContext(ctx, "tell the console what is not removed", "err", err, "retry_in", retryTime)
			retry.Sleep(ctx, retryTime)
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-g.signal:
		}
	}
}

func (g *Gate) tell(ctx context.Context) error {
	for {
		req := g.take()
		if len(req.GetClusters()) == 0 {
			return nil
		}
		err := g.record(ctx, req)
		if connect.CodeOf(err) == connect.CodeInvalidArgument && len(req.GetClusters()) > 1 {
			err = g.recordEach(ctx, req) // a cluster that is refused keeps no other from being told
		}
		if err != nil {
			g.mu.Lock()
			for _, c := range req.GetClusters() {
				g.untold[c.GetCluster()] = struct{}{}
			}
			g.mu.Unlock()
			return err
		}
	}
}

// recordEach tells of one cluster at a time.
func (g *Gate) recordEach(ctx context.Context, req *consolev1.RecordHeldRequest) error {
	for _, c := range req.GetClusters() {
		if err := g.record(ctx, &consolev1.RecordHeldRequest{Clusters: []*consolev1.ClusterHeld{c}}); err != nil {
			return err
		}
	}
	return nil
}

// record makes one call. A call that the console refuses for good is no error, but of several clusters.
func (g *Gate) record(ctx context.Context, req *consolev1.RecordHeldRequest) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := g.console.RecordHeld(ctx, req)
	code, one := connect.CodeOf(err), len(req.GetClusters()) == 1
	if code == connect.CodeUnimplemented || code == connect.CodeInvalidArgument && one { // saying it again would not help
		g.log.ErrorContext(ctx, "the console refuses what is not removed: agents keep it, and nobody is asked. Bring both to one version",
			"clusters", len(req.GetClusters()), "cluster", req.GetClusters()[0].GetCluster(), "err", err)
		return nil
	}
	return err
}

func (g *Gate) take() *consolev1.RecordHeldRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	req := &consolev1.RecordHeldRequest{}
	services := 0
	for _, name := range slices.Sorted(maps.Keys(g.untold)) {
		c := &consolev1.ClusterHeld{Cluster: name}
		if is := g.clusters[name]; is != nil {
			c.Services = is.services
		}
		services += len(c.GetServices())
		if n := len(req.GetClusters()); n == maxTold || n > 0 && services > maxServices {
			break
		}
		req.Clusters = append(req.Clusters, c)
		delete(g.untold, name)
	}
	return req
}
