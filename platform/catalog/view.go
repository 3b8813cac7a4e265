package catalog

import (
	"strings"
	"sync/atomic"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// Sources returns all sources with their heads, in the order of names.
func (c *Catalog) Sources() []*consolev1.Source {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return sorted(c.live.sources)
}

// Clusters returns all clusters, in the order of names.
func (c *Catalog) Clusters() []*consolev1.Cluster {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return sorted(c.live.clusters)
}

// Services returns all services, in the order of names.
func (c *Catalog) Services() []*Service {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return sorted(c.live.services)
}

// Secrets returns all secrets, without values, in the order of names.
func (c *Catalog) Secrets() []*consolev1.Secret {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return sorted(c.live.secrets)
}

// Grants returns all grants, in the order of names. The slice belongs to everybody: don't change it.
func (c *Catalog) Grants() []*consolev1.Grant {
	c.mu.RLock() // grants don't change meanwhile
	defer c.mu.RUnlock()
	return kept(&c.live.granted, c.live.grants)
}

// Roles returns all roles but those that are always there, in the order of names. The slice belongs to everybody:
// don't change it.
func (c *Catalog) Roles() []*consolev1.Role {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return kept(&c.live.allowed, c.live.roles)
}

func kept[R any](at *atomic.Pointer[[]R], all map[string]R) []R {
	if list := at.Load(); list != nil {
		return *list
	}
	list := sorted(all)
	at.Store(&list)
	return list
}

// Projects returns all projects, in the order of names.
func (c *Catalog) Projects() []*consolev1.Project {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return sorted(c.live.projects)
}

// AgentConfigs returns all configurations of agents, in the order of names.
func (c *Catalog) AgentConfigs() []*consolev1.AgentConfig {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return sorted(c.live.configs)
}

// ViewSets returns all sets of views, in the order of names.
func (c *Catalog) ViewSets() []*consolev1.ViewSet {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return sorted(c.live.sets)
}

// Project returns one project.
func (c *Catalog) Project(name string) (*consolev1.Project, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	p, ok := c.live.projects[name]
	return p, ok
}

// Source returns one source.
func (c *Catalog) Source(name string) (*consolev1.Source, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.live.sources[name]
	return s, ok
}

// Cluster returns one cluster.
func (c *Catalog) Cluster(name string) (*consolev1.Cluster, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.live.clusters[name]
	return s, ok
}

// Service returns one service.
func (c *Catalog) Service(name string) (*Service, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.live.services[name]
	return s, ok
}

// Secret returns one secret, without values.
func (c *Catalog) Secret(name string) (*consolev1.Secret, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.live.secrets[name]
	return s, ok
}

const (
	headRef = "HEAD"
	// SemverPrefix begins refs that choose the highest version of a range among the tags. No branch can
	// be meant: Git forbids colons in names.
	SemverPrefix = "semver:"
)

// CanonicalRef is the name that a ref, as people write it in a service, is published under: nothing is HEAD, a full
// commit id, semver:<range>, chart:<name>@<version>, tag:<name>, sha256:<digest>, combination:<hash> and refs/... stay,
// and anything else is a branch.
func CanonicalRef(ref string) string {
	switch {
	case ref == "" || ref == headRef:
		return headRef
	case strings.HasPrefix(ref, "refs/"), strings.HasPrefix(ref, SemverPrefix), strings.HasPrefix(ref, ChartPrefix),
		strings.HasPrefix(ref, TagPrefix), strings.HasPrefix(ref, DigestPrefix), IsCombination(ref):
		return ref
	case isCommit(ref):
		return strings.ToLower(ref)
	}
	return "refs/heads/" + ref
}

// isCommit knows full ids: 40 hex digits of SHA-1, 64 of SHA-256.
func isCommit(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// Head finds where a ref of a source, as people write it, points. False: it was not fetched yet.
func Head(s *consolev1.Source, ref string) (*consolev1.Head, bool) {
	ref = CanonicalRef(ref)
	for _, h := range s.GetStatus().GetHeads() {
		if h.GetRef() == ref {
			return h, true
		}
	}
	return nil, false
}
