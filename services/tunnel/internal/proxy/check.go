package proxy

import (
	"fmt"
	"net/http"
	"strings"

	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/services/tunnel/internal/access"
)

// split takes the cluster's name and the rest off an escaped path below prefix. The name is empty if there is
// none that could be a cluster's: names need no escapes.
func split(prefix, escaped string) (cluster, rest string) {
	below, ok := strings.CutPrefix(escaped, prefix)
	if !ok {
		return "", ""
	}
	cluster, rest, _ = strings.Cut(below, "/")
	if !isName(cluster) {
		return "", ""
	}
	return cluster, "/" + rest
}

// isName holds for DNS labels, as the catalog's names are.
func isName(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// check says what keeps a request from being sent.
func (x *exchange) check(r *http.Request) *kubehttp.Error {
	if x.caller.Kind != identity.KindUser || x.caller.Name == "" {
		return &kubehttp.Error{Code: http.StatusForbidden, Message: "clusters are reached by users only: run `fairlead login`"}
	}
	if refused := x.checkPath(r); refused != nil {
		return refused
	}
	if err := x.Catalog.Ready(); err != nil {
		return &kubehttp.Error{Code: http.StatusServiceUnavailable, Message: fmt.Sprintf("the tunnel does not know the clusters yet: %v. Try again in a moment", err)}
	}
	cluster, ok := x.Catalog.Cluster(x.cluster)
	if !ok {
		return &kubehttp.Error{Code: http.StatusNotFound, Message: fmt.Sprintf("cluster %q is not in the catalog: `fairlead get clusters` lists the names", x.cluster)}
	}
	if why := access.Check(x.caller, x.class, cluster, x.Catalog.Grants(), x.Catalog.Roles()...); why != "" {
		return &kubehttp.Error{Code: http.StatusForbidden, Message: why}
	}
	return nil
}

func (x *exchange) checkPath(r *http.Request) *kubehttp.Error {
	if x.cluster == "" {
		return &kubehttp.Error{Code: http.StatusBadRequest, Message: "the URL names no cluster: it must begin with /clusters/<name>/; `fairlead get clusters` lists the names"}
	}
	if n := len(x.path) + len("?") + len(r.URL.RawQuery); n > muxhttp.MaxTarget {
		return &kubehttp.Error{Code: http.StatusRequestURITooLong, Message: fmt.Sprintf(
			"cluster %q: path and query have %d bytes, and at most %d pass the tunnel. Ask for less at once, for instance with shorter selectors", x.cluster, n, muxhttp.MaxTarget)}
	}
	if err := kubehttp.CheckPath(x.path); err != nil {
		return &kubehttp.Error{Code: http.StatusBadRequest, Message: fmt.Sprintf("cluster %q: the request is refused: %v", x.cluster, err)}
	}
	if r.Method == http.MethodConnect {
		return &kubehttp.Error{Code: http.StatusNotImplemented, Message: fmt.Sprintf("cluster %q: CONNECT is not carried: an API server knows no such request", x.cluster)}
	}
	return nil
}
