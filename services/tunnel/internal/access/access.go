// Package access decides who may do what at the API of which cluster, by the catalog's grants, from memory.
//
// What no grant allows is refused. What a request is about is read off its method and path as the API
// server reads them; what can't be read for sure counts as what needs most. The cluster's own RBAC holds
// besides: this is about who comes through at all.
package access

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/kubehttp"
)

// Class is what a request needs. Each includes those before it.
type Class int

// The classes.
const (
	// Read is get, list and watch of anything but secrets, and questions about oneself.
	Read Class = iota
	// Write changes something.
	Write
	// Exec gets into pods, nodes and services, or makes somebody run there: exec, attach, port-forward, proxy, debug.
	Exec
	// Secrets reads or writes secrets, or makes tokens; and whatever can't be told.
	Secrets
)

// String is for errors: "may not ...".
func (c Class) String() string {
	switch c {
	case Read:
		return "read"
	case Write:
		return "change things"
	case Exec:
		return "get into pods, nodes and services (exec, attach, port-forward, proxy)"
	default:
		return "reach secrets and tokens"
	}
}

// role is the least role that has the class.
func (c Class) role() string { return roles[c] }

// roles by the class that each has with all before it.
var roles = [...]string{Read: "viewer", Write: "deployer", Exec: "operator", Secrets: "admin"} //nolint:gochecknoglobals // a constant

// ClassOf says what a request with this method and path (unescaped, without the cluster's prefix) needs.
func ClassOf(method, path string, info kubehttp.Info) Class {
	if strings.Contains(strings.Trim(path, "/"), "//") {
		return Secrets // servers differ in what they make of it
	}
	reads := method == http.MethodGet || method == http.MethodHead
	if info.Resource == "" {
		return ofPath(path, reads)
	}
	switch info.Resource {
	case "secrets":
		return Secrets
	case "serviceaccounts":
		if info.Subresource == "token" {
			return Secrets
		}
	case "pods", "services", "nodes":
		switch info.Subresource {
		case "exec", "attach", "portforward", "proxy", "ephemeralcontainers":
			return Exec
		}
	case "selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews":
		return Read
	}
	switch {
	case info.Subresource == "proxy", info.Subresource == "exec", info.Subresource == "portforward":
		return Exec // of what others may call so
	case reads:
		return Read
	}
	return Write
}

// ofPath is for what is no resource.
func ofPath(path string, reads bool) Class {
	first, _, _ := strings.Cut(strings.Trim(path, "/"), "/")
	switch {
	case !reads:
		return Write
	case first == "debug", first == "logs":
		return Exec // of the API server itself
	}
	return Read
}

// Check says why a user may not do that at a cluster; "": it may. Grants are those of the catalog.
func Check(user identity.Identity, class Class, cluster *consolev1.Cluster, grants []*consolev1.Grant) string {
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
		"An administrator can add one with `fairlead apply`: see `fairlead get grants`", name, user.Name, class, class.role(), held)
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
