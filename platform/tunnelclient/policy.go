package tunnelclient

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
)

// Policy is what the cluster's own people allow, whatever the hub says. The zero value lets everybody through but
// Kubernetes' own users and groups; the cluster's RBAC holds besides.
type Policy struct {
	// AllowSystem lets users and groups through whose names begin with "system:" or "kubeadm:".
	AllowSystem bool
	// GroupPrefix is put before the groups that an identity provider gives people, so that none of them is by chance
	// one that the cluster has bound already.
	GroupPrefix string
	// Users are the only ones that are let through, if there are any.
	Users []string
	// Groups are the only ones that people are impersonated with, as the cluster knows them (with GroupPrefix), if
	// there are any. A person's other groups are dropped.
	Groups []string
	// NoImpersonation lets nobody pass off as somebody else (kubectl --as), whatever the API server says of them.
	NoImpersonation bool
	// ImpersonatedUsers and ImpersonatedGroups are the only ones that people may pass off as, if there are any; else
	// those of Users and Groups. A group is called as the cluster calls it.
	ImpersonatedUsers, ImpersonatedGroups []string
	// ReadOnly lets nobody change anything, nor get into pods, nodes and services, nor reach secrets.
	ReadOnly bool
	// Namespaces are the only ones that may be looked into, if there are any; nothing besides namespaces then,
	// but for what says which APIs there are.
	Namespaces []string
	// By says whose policy it is, for refusals; empty: that of the agent's flags.
	By string
}

// says names what a policy refuses by: a flag of the agent, unless the policy is somebody else's.
func (p Policy) says(flag string) string {
	if p.By != "" {
		return p.By
	}
	return "its agent's " + flag
}

// hubGroups begin the groups that the hub itself gives: no provider's group is called so.
const hubGroups = "fairlead:"

// group is how the cluster knows a group of the hub's.
func (p Policy) group(name string) string {
	if strings.HasPrefix(name, hubGroups) {
		return name
	}
	return p.GroupPrefix + name
}

// passes tells whether the cluster gets to know a group of the hub's.
func (p Policy) passes(group string) bool {
	return len(p.Groups) == 0 || slices.Contains(p.Groups, p.group(group))
}

// check says why a request is refused, or returns nil.
func (p Policy) check(c muxhttp.Caller, r *http.Request) *kubehttp.Error {
	if err := p.checkCaller(c); err != nil {
		return refusal(err.Error())
	}
	if !p.ReadOnly && len(p.Namespaces) == 0 {
		return nil
	}
	path, err := url.PathUnescape(r.URL.EscapedPath())
	if err != nil {
		return refusal("its path has broken escapes")
	}
	info := kubehttp.InfoOf(r.Method, path, r.URL.Query())
	if class := kubehttp.ClassOf(r.Method, path, info); p.ReadOnly && class != kubehttp.Read {
		return refusal(fmt.Sprintf("this cluster is read-only by %s: nobody may %s", p.says("--tunnel-read-only"), class))
	}
	if len(p.Namespaces) > 0 && !p.inside(r.Method, path, info) {
		return refusal(fmt.Sprintf("this cluster's agent lets people into these namespaces only, by its --tunnel-namespaces: %s", strings.Join(p.Namespaces, ", ")))
	}
	return nil
}

func refusal(why string) *kubehttp.Error {
	return &kubehttp.Error{Code: http.StatusForbidden, Message: "the agent refuses this request: " + why}
}

// inside says whether a request stays within the namespaces that are allowed.
func (p Policy) inside(method, path string, info kubehttp.Info) bool {
	switch {
	case strings.Contains(strings.Trim(path, "/"), "//"):
		return false // servers differ in what they make of it
	case info.Resource == "":
		return kubehttp.ClassOf(method, path, info) == kubehttp.Read
	case info.Namespace != "":
		return slices.Contains(p.Namespaces, info.Namespace)
	}
	return strings.HasPrefix(info.Resource, "selfsubject")
}
