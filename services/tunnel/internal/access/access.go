// Package access decides who may do what at the API of which cluster, by the catalog's grants, from memory.
//
// A request that no grant allows is refused. The cluster's own RBAC holds besides: this is about who comes through at
// all.
package access

import (
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/access"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/kubehttp"
)

// Check says why a user may not do that at a cluster; "": it may. Grants and roles are those of the catalog.
func Check(user identity.Identity, class kubehttp.Class, cluster *consolev1.Cluster, grants []*consolev1.Grant, roles ...*consolev1.Role) string {
	rules := access.Rules{Grants: grants, Roles: roles}
	if decision := rules.AtCluster(user, class, cluster); !decision.Allowed {
		return decision.Reason
	}
	return ""
}
