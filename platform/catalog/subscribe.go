package catalog

import (
	"maps"
	"sync"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// Delta names what was created, changed or deleted. With All set anything may have: read everything;
// the sets are empty then.
type Delta struct {
	All bool
	// Rights: of the grants and roles, whichever.
	Rights bool
	// AgentConfigs: of the configurations of agents, whichever.
	AgentConfigs bool
	// ViewSets: of the sets of views, whichever.
	ViewSets bool

	Sources, Clusters, Services, Secrets, Projects map[string]struct{}
}

// Empty says that nothing changed.
func (d Delta) Empty() bool {
	return !d.All && !d.Rights && !d.AgentConfigs && !d.ViewSets && len(d.Sources)+len(d.Clusters)+len(d.Services)+len(d.Secrets)+len(d.Projects) == 0
}

func (d *Delta) add(kind consolev1.Kind, name string) {
	var names *map[string]struct{}
	switch kind {
	case consolev1.Kind_KIND_SOURCE:
		names = &d.Sources
	case consolev1.Kind_KIND_CLUSTER:
		names = &d.Clusters
	case consolev1.Kind_KIND_SERVICE:
		names = &d.Services
	case consolev1.Kind_KIND_SECRET:
		names = &d.Secrets
	case consolev1.Kind_KIND_PROJECT:
		names = &d.Projects
	case consolev1.Kind_KIND_GRANT, consolev1.Kind_KIND_ROLE:
		d.Rights = true
		return
	case consolev1.Kind_KIND_AGENT_CONFIG:
		d.AgentConfigs = true
		return
	case consolev1.Kind_KIND_VIEW_SET:
		d.ViewSets = true
		return
	default:
		return
	}
	if *names == nil {
		*names = map[string]struct{}{}
	}
	(*names)[name] = struct{}{}
}

func (d *Delta) merge(more Delta) {
	if d.All || more.All {
		*d = Delta{All: true}
		return
	}
	d.Rights = d.Rights || more.Rights
	d.AgentConfigs = d.AgentConfigs || more.AgentConfigs
	d.ViewSets = d.ViewSets || more.ViewSets
	d.Sources = union(d.Sources, more.Sources)
	d.Clusters = union(d.Clusters, more.Clusters)
	d.Services = union(d.Services, more.Services)
	d.Secrets = union(d.Secrets, more.Secrets)
	d.Projects = union(d.Projects, more.Projects)
}

func union(a, b map[string]struct{}) map[string]struct{} {
	if a == nil {
		return maps.Clone(b)
	}
	maps.Copy(a, b)
	return a
}

// Subscription gathers changes for one reader. Changes that are not taken are merged, so a slow reader blocks nobody
// and holds at most every name once.
type Subscription struct {
	catalog *Catalog
	signal  chan struct{} // capacity 1

	mu      sync.Mutex
	pending Delta // guarded by mu
}

// Subscribe tells of changes from now on. If the catalog is ready, the first Take says to read
// everything; otherwise the first that comes does. The caller closes it.
func (c *Catalog) Subscribe() *Subscription {
	s := &Subscription{catalog: c, signal: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subs[s] = struct{}{}
	if c.ready {
		s.add(Delta{All: true})
	}
	return s
}

// C receives when there is something to Take. The channel is never closed.
func (s *Subscription) C() <-chan struct{} { return s.signal }

// Take returns what changed since the last Take.
func (s *Subscription) Take() Delta {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.pending
	s.pending = Delta{}
	return d
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	delete(s.catalog.subs, s)
}

func (s *Subscription) add(d Delta) {
	s.mu.Lock()
	s.pending.merge(d)
	s.mu.Unlock()
	s.wake()
}

func (s *Subscription) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// notify tells everybody. c.mu is held.
func (c *Catalog) notify(d Delta) {
	if d.Empty() {
		return
	}
	for s := range c.subs {
		s.add(d)
	}
}
