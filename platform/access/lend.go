package access

import (
	"fmt"
	"slices"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
)

// LentGroup begins the groups that people have at the Kubernetes API of a cluster as long as access to it is lent to
// them; the name of the role follows. No identity provider hands such a group on, so a cluster's RBAC can bind it.
const LentGroup = "fairlead:lent:"

// MayLend tells whether somebody may decide about a request for a role at a cluster, as far as rights go: a person who
// may edit the cluster and has at least that role there, both for good. A lent role can't be lent on.
func (r *Rules) MayLend(who identity.Identity, role string, cluster *consolev1.Cluster) Decision {
	name := cluster.GetMetadata().GetName()
	deny := func(why string) Decision {
		return Decision{Reason: fmt.Sprintf("%s may not decide about role %s at cluster %q: %s", Who(who), role, name, why)}
	}
	if _, account := who.ServiceAccount(); who.Kind != identity.KindUser || account {
		return deny("only people lend access")
	}
	if who.Limits != nil {
		return deny("the token has limits")
	}
	if slices.Contains(who.Groups, identity.AdminsGroup) {
		return Decision{Allowed: true, Rule: adminsRule}
	}
	own := r.Lasting(who)
	at := Target{Kind: Cluster, Name: name, Cluster: name, ClusterLabels: cluster.GetMetadata().GetLabels()}
	if !own.Allows(who, Edit, at) {
		return deny("that needs the right to edit the cluster by a grant without an end. Ask a member of " + identity.AdminsGroup)
	}
	for _, g := range own.Grants {
		has := g.GetSpec().GetRole()
		if isAt(g, cluster) && len(g.GetSpec().GetProjects()) == 0 && (has == role || rankOf(role) >= 0 && rankOf(has) >= rankOf(role)) {
			return Decision{Allowed: true, Rule: fmt.Sprintf("grant %q (role %s)", g.GetMetadata().GetName(), has)}
		}
	}
	return deny("nobody lends more than a grant without an end gives them there. Ask a member of " + identity.AdminsGroup)
}

// Lasting are the rules that somebody has for good: their grants without an end.
func (r *Rules) Lasting(who identity.Identity) *Rules {
	return &Rules{Grants: lasting(r.Of(who)), Roles: r.Roles, Now: r.Now}
}

// lasting are the grants without an end.
func lasting(grants []*consolev1.Grant) (out []*consolev1.Grant) {
	for _, g := range grants {
		if g.GetSpec().GetUntilTime() == nil {
			out = append(out, g)
		}
	}
	return out
}

// isAt tells whether a grant is about a cluster.
func isAt(g *consolev1.Grant, cluster *consolev1.Cluster) bool {
	at := g.GetSpec().GetClusters()
	return at.GetAll() || matches(at.GetNames(), at.GetLabels(), cluster.GetMetadata().GetName(), cluster.GetMetadata().GetLabels())
}

// LentGroups are the groups that somebody has at the Kubernetes API of a cluster because access to it is lent to them
// now. A token with limits has none.
func (r *Rules) LentGroups(who identity.Identity, cluster *consolev1.Cluster) (groups []string) {
	if who.Limits != nil {
		return nil
	}
	for _, g := range r.Grants {
		if g.GetSpec().GetUntilTime() == nil || len(g.GetSpec().GetProjects()) > 0 || !isAt(g, cluster) || !r.isFor(g, who) {
			continue
		}
		if group := LentGroup + g.GetSpec().GetRole(); !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	return groups
}

// NextEnd is when the first of the grants ends that are in force; zero: none ends.
func (r *Rules) NextEnd() (next time.Time) {
	now := r.now()
	for _, g := range r.Grants {
		until := g.GetSpec().GetUntilTime()
		if until == nil || !until.AsTime().After(now) {
			continue
		}
		if next.IsZero() || until.AsTime().Before(next) {
			next = until.AsTime()
		}
	}
	return next
}
