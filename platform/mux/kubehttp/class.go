package kubehttp

import (
	"net/http"
	"strings"
)

// Class is what a request needs. Each includes those before it.
type Class int

// The classes.
const (
	// Read is get, list and watch of anything but secrets, and questions about oneself.
	Read Class = iota
	// Write changes something.
	Write
	// Exec gets into pods, nodes and services, or makes somebody run there: exec, attach, port-forward, proxy, debug;
	// and whatever subresource that is not known is read.
	Exec
	// Secrets reads or writes secrets, or makes tokens and certificates; and whatever can't be told.
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

// ClassOf says what a request with this method and path (unescaped, without the cluster's prefix) needs. ClassOf reads
// them as the API server does; what it can't read for sure counts as what needs most.
func ClassOf(method, path string, info Info) Class {
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
	case "certificatesigningrequests":
		if info.Subresource == "approval" && !reads {
			return Secrets // an approval makes a certificate that others log in with
		}
	case "selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews":
		return Read
	}
	switch {
	case info.Group == "" && info.Resource == "proxy": // the old spelling of the subresource
		return Exec
	case info.Subresource == "proxy", info.Subresource == "exec", info.Subresource == "portforward":
		return Exec // of what others may call so
	case reads && !readable(info):
		return Exec // consoles and shells of others (KubeVirt's console and vnc) are opened by GET
	case reads:
		return Read
	}
	return Write
}

// readable tells the subresources that are nothing but data.
func readable(info Info) bool {
	switch info.Subresource {
	case "", "status", "scale", "log":
		return true
	case "resize":
		return info.Group == "" && info.Resource == "pods"
	case "approval":
		return info.Group == "certificates.k8s.io"
	}
	return info.Group == "custom.metrics.k8s.io" // where it is the name of a metric
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
