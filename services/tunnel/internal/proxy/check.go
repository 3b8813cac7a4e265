package proxy

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/access"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/kubename"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/tunnelclient"
)

// splitPath takes the cluster's name and the rest off an escaped path below prefix. The name is empty if there is
// none that could be a cluster's: names need no escapes.
func splitPath(prefix, escaped string) (cluster, rest string) {
	below, ok := strings.CutPrefix(escaped, prefix)
	if !ok {
		return "", ""
	}
	cluster, rest, _ = strings.Cut(below, "/")
	if !kubename.IsLabel(cluster) { // as the catalog's names are
		return "", ""
	}
	return cluster, "/" + rest
}

// checkRequest says what keeps a request from being sent.
func (x *exchange) checkRequest(r *http.Request) *kubehttp.Error {
	if x.caller.Kind != identity.KindUser || x.caller.Name == "" {
		return &kubehttp.Error{Code: http.StatusForbidden, Message: "clusters are reached by users only: run `fairlead login`"}
	}
	if refused := x.checkPath(r); refused != nil {
		return refused
	}
	if err := x.handler.Catalog.Ready(); err != nil {
		return &kubehttp.Error{
			Code:    http.StatusServiceUnavailable,
			Message: fmt.Sprintf("the tunnel does not know the clusters yet: %v. Try again in a moment", err),
		}
	}
	cluster, ok := x.handler.Catalog.Cluster(x.cluster)
	if !ok {
		return &kubehttp.Error{
			Code:    http.StatusNotFound,
			Message: fmt.Sprintf("cluster %q is not in the catalog: `fairlead get clusters` lists the names", x.cluster),
		}
	}
	rules := x.handler.currentRules()
	if decision := rules.AtCluster(x.user, x.class, cluster); !decision.Allowed {
		return &kubehttp.Error{Code: http.StatusForbidden, Message: decision.Reason}
	}
	if refused := x.checkService(r, cluster); refused != nil {
		return refused
	}
	x.addLentGroups(cluster)
	return nil
}

// currentRules are the grants and roles of the tunnel's copy of the catalog.
func (h *Handler) currentRules() *access.Rules {
	return &access.Rules{Grants: h.Catalog.Grants(), Roles: h.Catalog.Roles()}
}

// Rights tells what a caller may do with resources that are not in the tunnel's copy of the catalog; the console does.
type Rights interface {
	CheckAccess(context.Context, *consolev1.CheckAccessRequest) (*consolev1.CheckAccessResponse, error)
}

// rightsTimeout bounds the question about one request.
const rightsTimeout = 5 * time.Second

// checkService says why the caller may not have the agent compare a service: a right at the API of its cluster is none
// to the service. GET needs the right to view it. Everything else sends content that is rendered with the service's
// configuration, as a change of the service would be, and needs the right to edit it.
func (x *exchange) checkService(r *http.Request, cluster *consolev1.Cluster) *kubehttp.Error {
	below, ok := strings.CutPrefix(x.plain, tunnelclient.OwnPrefix+"v1/services/")
	if !ok {
		return nil
	}
	name, _, _ := strings.Cut(below, "/")
	verb := access.Edit
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		verb = access.View
	}
	rules := x.handler.currentRules()
	// A right that is allowed without a project is allowed in all.
	decision := rules.May(x.user, verb, access.Target{
		Kind: access.Service, Name: name, Cluster: x.cluster,
		ClusterLabels: cluster.GetMetadata().GetLabels(),
	})
	if decision.Allowed {
		return nil
	}
	// The service's project decides, and the console knows it.
	ctx, cancel := context.WithTimeout(r.Context(), rightsTimeout)
	defer cancel()
	answer, err := x.handler.Rights(identity.TokenOf(r.Header)).CheckAccess(ctx, &consolev1.CheckAccessRequest{Verb: string(verb), Kind: access.Service, Name: name})
	switch {
	case connect.CodeOf(err) == connect.CodeInvalidArgument: // no service has such a name
		return &kubehttp.Error{Code: http.StatusForbidden, Message: decision.Reason}
	case err != nil:
		x.handler.Log.InfoContext(r.Context(), "console does not tell the right to a service", "service", name, "err", err)
		return &kubehttp.Error{
			Code:    http.StatusServiceUnavailable,
			Message: fmt.Sprintf("the console does not say whether you may %s service %q. Try again in a moment", verb, name),
		}
	case !answer.GetAllowed():
		return &kubehttp.Error{Code: http.StatusForbidden, Message: answer.GetReason()}
	}
	return nil
}

// addLentGroups gives the caller the groups that are lent at a cluster, as far as there is room beside their own: one
// that has none gives less, never more.
func (x *exchange) addLentGroups(cluster *consolev1.Cluster) {
	lentNow := func() []string {
		rules := access.Rules{Grants: x.handler.Catalog.Grants()}
		groups := rules.LentGroups(x.user, cluster)
		return groups[:min(len(groups), identity.MaxGroups-len(x.user.Groups))]
	}
	lent := lentNow()
	for x.lasting != nil {
		x.handler.standing.mu.Lock()
		x.lent = lent
		x.handler.standing.mu.Unlock()
		again := lentNow()
		if slices.Equal(lent, again) {
			break
		}
		lent = again // grants changed before Judge could know of these groups
	}
	if len(lent) > 0 {
		x.caller.Groups = slices.Concat(x.user.Groups, lent)
	}
}

func (x *exchange) checkPath(r *http.Request) *kubehttp.Error {
	if x.cluster == "" {
		return &kubehttp.Error{
			Code:    http.StatusBadRequest,
			Message: "the URL names no cluster: it must begin with /clusters/<name>/; `fairlead get clusters` lists the names",
		}
	}
	if n := len(x.path) + len("?") + len(r.URL.RawQuery); n > muxhttp.MaxTarget {
		return &kubehttp.Error{Code: http.StatusRequestURITooLong, Message: fmt.Sprintf(
			"cluster %q: path and query have %d bytes, and at most %d pass the tunnel. Ask for less at once, for instance with shorter selectors", x.cluster, n, muxhttp.MaxTarget)}
	}
	if err := kubehttp.CheckPath(x.path); err != nil {
		return &kubehttp.Error{Code: http.StatusBadRequest, Message: fmt.Sprintf("cluster %q: the request is refused: %v", x.cluster, err)}
	}
	if r.Method == http.MethodConnect {
		return &kubehttp.Error{
			Code:    http.StatusNotImplemented,
			Message: fmt.Sprintf("cluster %q: CONNECT is not carried: an API server knows no such request", x.cluster),
		}
	}
	return nil
}
