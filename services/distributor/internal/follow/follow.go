// Package follow brings the catalog, and every change of it, into the plan.
package follow

import (
	"time"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/distributor/internal/plan"
)

// Catalog is what is followed.
type Catalog interface {
	Current() bool
	Revision() int64
	Services() []*catalog.Service
	Service(name string) (*catalog.Service, bool)
	Sources() []*consolev1.Source
	Source(name string) (*consolev1.Source, bool)
	Clusters() []*consolev1.Cluster
	Cluster(name string) (*consolev1.Cluster, bool)
	Projects() []*consolev1.Project
	Project(name string) (*consolev1.Project, bool)
	AgentConfigs() []*consolev1.AgentConfig
	ViewSets() []*consolev1.ViewSet
}

// Changes tells what changed since it was asked last.
type Changes interface{ Take() catalog.Delta }

// Apply brings what changed in the catalog into the plan, and says whether clusters may have left.
func Apply(p *plan.Plan, c Catalog, changes Changes, now time.Time) (change plan.Change, gone bool) {
	low := c.Revision() // first: up to here everything is told
	d := changes.Take()
	gone = d.All
	for name := range d.Clusters {
		_, exists := c.Cluster(name)
		gone = gone || !exists
	}
	return p.Update(now, func(u *plan.Update) {
		if d.All {
			all(u, c)
		} else {
			some(u, c, d)
		}
		u.At(low, c.Revision()) // last: nothing newer was read
	}), gone
}

func some(u *plan.Update, c Catalog, d catalog.Delta) {
	for name := range d.Sources { // first: what may be newer elsewhere is known by the heads
		s, _ := c.Source(name)
		u.Source(name, source(s))
	}
	for name := range d.Projects { // before their services
		p, _ := c.Project(name)
		u.Project(name, catalog.BoundsOf(p), catalog.WindowsOfProject(p))
	}
	if d.AgentConfigs {
		u.AgentConfigs(c.AgentConfigs())
	}
	if d.ViewSets {
		u.ViewSets(c.ViewSets())
	}
	for name := range d.Clusters {
		r, exists := c.Cluster(name)
		u.Cluster(name, exists)
		u.Labels(name, r.GetMetadata().GetLabels())
		u.Windows(name, catalog.WindowsOfCluster(r))
	}
	for name := range d.Services {
		if s, ok := c.Service(name); ok {
			u.Service(s)
		} else {
			u.Remove(name)
		}
	}
}

func all(u *plan.Update, c Catalog) {
	if c.Current() { // asked before it is read: what is read is no older
		u.Current()
	}
	for _, s := range c.Sources() { // first: what is remembered, and what may be newer elsewhere, is known by the heads
		u.Source(s.GetMetadata().GetName(), source(s))
	}
	for _, p := range c.Projects() {
		u.Project(p.GetMetadata().GetName(), catalog.BoundsOf(p), catalog.WindowsOfProject(p))
	}
	u.AgentConfigs(c.AgentConfigs())
	u.ViewSets(c.ViewSets())
	for _, r := range c.Clusters() {
		u.Cluster(r.GetMetadata().GetName(), true)
		u.Labels(r.GetMetadata().GetName(), r.GetMetadata().GetLabels())
		u.Windows(r.GetMetadata().GetName(), catalog.WindowsOfCluster(r))
	}
	for _, s := range c.Services() {
		u.Service(s)
	}
	u.Only(has(c.Service), has(c.Cluster), has(c.Source), has(c.Project))
	u.Loaded()
}

func has[T any](get func(string) (T, bool)) func(string) bool {
	return func(name string) bool { _, ok := get(name); return ok }
}

// source is nil for nil.
func source(s *consolev1.Source) *plan.Source {
	if s == nil {
		return nil
	}
	out := &plan.Source{
		UID: s.GetMetadata().GetUid(), Submodules: s.GetSpec().GetGit().GetSubmodules(),
		Dependencies: catalog.HasDependencies(s.GetSpec()),
		Heads:        make(map[string]plan.Revision, len(s.GetStatus().GetHeads())),
	}
	for _, h := range s.GetStatus().GetHeads() {
		out.Heads[h.GetRef()] = revision(h.GetRevision())
	}
	return out
}

func revision(r *artifactv1.Revision) plan.Revision {
	out := plan.Revision{Commit: r.GetCommit(), Subject: r.GetSubject(), Author: r.GetAuthor(), Traceparent: r.GetTraceparent()}
	if r.GetCommitTime() != nil {
		out.Time = r.GetCommitTime().AsTime()
	}
	return out
}
