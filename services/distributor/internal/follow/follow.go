// Package follow brings the catalog, and every change of it, into the plan.
package follow

import (
	"strings"
	"time"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/services/distributor/internal/plan"
)

// defaultNamespace is where objects go that name none, in services that name none.
const defaultNamespace = "default"

// Catalog is what is followed.
type Catalog interface {
	Current() bool
	Services() []*catalog.Service
	Service(name string) (*catalog.Service, bool)
	ServicesOf(source string) []*catalog.Service
	Source(name string) (*consolev1.Source, bool)
	Clusters() []*consolev1.Cluster
	Cluster(name string) (*consolev1.Cluster, bool)
}

// Apply brings what changed in the catalog into the plan.
func Apply(p *plan.Plan, c Catalog, d catalog.Delta, now time.Time) plan.Change {
	return p.Update(now, func(u *plan.Update) {
		if d.All {
			all(u, c)
			return
		}
		for name := range d.Clusters {
			_, exists := c.Cluster(name)
			u.Cluster(name, exists)
		}
		for name := range d.Services {
			if s, ok := c.Service(name); ok {
				put(u, c, s)
			} else {
				u.Remove(name)
			}
		}
		for source := range d.Sources {
			for _, s := range c.ServicesOf(source) {
				put(u, c, s)
			}
		}
	})
}

func all(u *plan.Update, c Catalog) {
	if c.Current() { // asked before it is read: what is read is no older
		u.Current()
	}
	services, clusters := map[string]struct{}{}, map[string]struct{}{}
	for _, r := range c.Clusters() {
		clusters[r.GetMetadata().GetName()] = struct{}{}
		u.Cluster(r.GetMetadata().GetName(), true)
	}
	for _, s := range c.Services() {
		services[s.Name] = struct{}{}
		put(u, c, s)
	}
	u.Only(services, clusters)
	u.Loaded()
}

func put(u *plan.Update, c Catalog, s *catalog.Service) {
	folder := s.Folder()
	spec := plan.Spec{
		Name: s.Name, UID: s.UID, Cluster: s.Cluster(), Namespace: s.Namespace(),
		Source: folder.Source, Ref: folder.Ref, Path: strings.Trim(folder.Path, "/"),
		Include: plan.Rules(folder.Include), Ignore: plan.Rules(folder.Ignore),
	}
	if spec.Namespace == "" {
		spec.Namespace = defaultNamespace
	}
	var head plan.Revision
	if source, ok := c.Source(spec.Source); ok {
		spec.SourceUID, spec.Submodules = source.GetMetadata().GetUid(), source.GetSpec().GetGit().GetSubmodules()
		if h, ok := catalog.Head(source, spec.Ref); ok {
			head = revision(h.GetRevision())
		}
	}
	u.Service(spec, head)
}

func revision(r *artifactv1.Revision) plan.Revision {
	out := plan.Revision{Commit: r.GetCommit(), Subject: r.GetSubject(), Author: r.GetAuthor(), Traceparent: r.GetTraceparent()}
	if r.GetCommitTime() != nil {
		out.Time = r.GetCommitTime().AsTime()
	}
	return out
}
