// Package access decides who may do what at the API of which cluster, by the catalog's grants, from memory.
//
// What no grant allows is refused. The cluster's own RBAC holds besides: this is about who comes through at all.
package access

import (
	"fmt"
	"slices"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/kubehttp"
)

// roles by the class that each has with all before it.
var roles = [...]string{kubehttp.Read: "viewer", kubehttp.Write: "deployer", kubehttp.Exec: "operator", kubehttp.Secrets: "admin"} //nolint:gochecknoglobals // a constant

// Check says why a user may not do that at a cluster; "": it may. Grants are those of the catalog.
func Check(user identity.Identity, class kubehttp.Class, cluster *consolev1.Cluster, grants []*consolev1.Grant) string {
	if slices.Contains(user.Groups, identity.AdminsGroup) {
		return ""
	}
	has, by := -1, ""
	for _, g := range grants {
		role := slices.Index(roles[:], g.GetSpec().GetRole())
		if role <= has || !isFor(g, user) || !isAt(g, cluster) {
			continue
		}
		if role >= int(class) {
			return ""
		}
		has, by = role, g.GetMetadata().GetName()
	}
	name := cluster.GetMetadata().GetName()
	held := "no grant for this cluster is for this user or one of its groups"
	if has >= 0 {
		held = fmt.Sprintf("grant %q gives no more than role %s", by, roles[has])
	}
	return fmt.Sprintf("cluster %q: user %q may not %s here: that needs a grant with role %s, and %s. "+
		"An administrator can add one with `fairlead apply`: see `fairlead get grants`", name, user.Name, class, roles[class], held)
}

func isFor(g *consolev1.Grant, user identity.Identity) bool {
	for _, s := range g.GetSpec().GetSubjects() {
		switch who := s.GetSubject().(type) {
		case *consolev1.GrantSubject_User:
			if who.User == user.Name {
				return true
			}
		case *consolev1.GrantSubject_Group:
			if slices.Contains(user.Groups, who.Group) {
				return true
			}
		}
	}
	return false
}

func isAt(g *consolev1.Grant, cluster *consolev1.Cluster) bool {
	where := g.GetSpec().GetClusters()
	if where.GetAll() || slices.Contains(where.GetNames(), cluster.GetMetadata().GetName()) {
		return true
	}
	for key, value := range where.GetLabels() {
		if has, ok := cluster.GetMetadata().GetLabels()[key]; !ok || has != value {
			return false
		}
	}
	return len(where.GetLabels()) > 0
}
