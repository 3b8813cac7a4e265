// Package authz decides who may see of which source what, by the catalog's grants, from memory.
//
// The state of sources is for whoever has any grant, as it is in the catalog. The content of a repository is for
// subjects that may view one of the services made of it, or edit the source; to poll it now is for subjects that may
// deploy one of them, or edit the source. A subject without the right gets the same answer as for a source that is not
// there.
package authz

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/access"
	"fairlead.dev/platform/catalog"
	"fairlead.dev/platform/identity"
)

// Catalog is what rights depend on.
type Catalog interface {
	Ready() error
	Grants() []*consolev1.Grant
	Roles() []*consolev1.Role
	Cluster(name string) (*consolev1.Cluster, bool)
	Service(name string) (*catalog.Service, bool)
	ServicesOf(source string) []*catalog.Service
}

// Rights are those that a catalog gives.
type Rights struct{ Catalog Catalog }

// View refuses who may not see the state of sources.
func (r Rights) View(who identity.Identity) error {
	return r.judge(who, func(rules *access.Rules) string {
		return rules.May(who, access.View, access.Target{Kind: access.Source}).Reason
	})
}

// Read refuses who may not see what is in a source.
func (r Rights) Read(who identity.Identity, source string) error {
	return r.judge(who, func(rules *access.Rules) string {
		if r.by(rules, who, access.View, source) {
			return ""
		}
		return fmt.Sprintf("%s may not read what is in source %q: that needs a grant for one of the services that are made of it. %s", access.Who(who), source, access.Help)
	})
}

// EditService refuses who may not edit a service: a service that does not exist, too, but for those who may edit all.
func (r Rights) EditService(who identity.Identity, name string) error {
	return r.judge(who, func(rules *access.Rules) string {
		target := access.Target{Kind: access.Service, Name: name}
		if s, ok := r.Catalog.Service(name); ok {
			target.Project, target.Cluster = s.Project(), s.Cluster()
			if cluster, ok := r.Catalog.Cluster(s.Cluster()); ok {
				target.ClusterLabels = cluster.GetMetadata().GetLabels()
			}
		}
		if rules.Allows(who, access.Edit, target) {
			return ""
		}
		return fmt.Sprintf("%s may not have service %q compared with another revision: that needs the right to edit the service. %s", access.Who(who), name, access.Help)
	})
}

// Refresh refuses who may not have a source polled now.
func (r Rights) Refresh(who identity.Identity, source string) error {
	return r.judge(who, func(rules *access.Rules) string {
		if r.by(rules, who, access.Deploy, source) {
			return ""
		}
		return fmt.Sprintf("%s may not refresh source %q: that needs a grant with role deployer for one of the services that are made of it. %s", access.Who(who), source, access.Help)
	})
}

// judge says no with a reason; another gitcache hands on what somebody asks who was judged there.
func (r Rights) judge(who identity.Identity, why func(*access.Rules) string) error {
	if who.Has(identity.RoleGitcache) {
		return nil
	}
	if err := r.Catalog.Ready(); err != nil {
		return connect.NewError(connect.CodeUnavailable, err)
	}
	if reason := why(&access.Rules{Grants: r.Catalog.Grants(), Roles: r.Catalog.Roles()}); reason != "" {
		return connect.NewError(connect.CodePermissionDenied, errors.New(reason))
	}
	return nil
}

// by tells whether somebody may do that with a service of the source, or edit the source.
func (r Rights) by(rules *access.Rules, who identity.Identity, verb access.Verb, source string) bool {
	if rules.Allows(who, access.Edit, access.Target{Kind: access.Source, Name: source}) {
		return true
	}
	type place struct{ project, cluster string }
	judged := map[place]bool{} // many services are in one
	for _, s := range r.Catalog.ServicesOf(source) {
		at := place{s.Project(), s.Cluster()}
		if judged[at] {
			continue
		}
		judged[at] = true
		target := access.Target{Kind: access.Service, Name: s.Name, Project: at.project, Cluster: at.cluster}
		if cluster, ok := r.Catalog.Cluster(at.cluster); ok {
			target.ClusterLabels = cluster.GetMetadata().GetLabels()
		}
		if rules.Allows(who, verb, target) {
			return true
		}
	}
	return false
}
