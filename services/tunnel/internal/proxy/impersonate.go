package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"fairlead.dev/platform/audit"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/mux/kubehttp"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/services/tunnel/internal/session"
)

// maxImpersonated bounds the names that a request asks to pass off as: the agent asks the cluster about each of them.
const maxImpersonated = 64

// readImpersonated reads whom a request asks to pass off as, as `kubectl --as` says it; nil: nobody. A field that says
// anything else in these names is refused, and none is passed over: the request would run with the caller's own rights.
func readImpersonated(h http.Header) (*muxhttp.Impersonated, error) {
	var as muxhttp.Impersonated
	names, asked := 0, false
	for field, values := range h {
		if !kubehttp.Impersonates(field) {
			continue
		}
		asked = true
		names += len(values)
		for _, value := range values {
			if !utf8.ValidString(value) {
				return nil, fmt.Errorf("the header %s has %q, which is not UTF-8", field, value)
			}
		}
		key, isExtra, err := kubehttp.ExtraKey(field)
		switch {
		case err != nil || !utf8.ValidString(key):
			return nil, fmt.Errorf("the header %s has broken escapes", field)
		case field == "Impersonate-User" && len(values) == 1:
			as.User = values[0]
		case field == "Impersonate-Uid" && len(values) == 1:
			as.UID = values[0]
		case field == "Impersonate-Group":
			as.Groups = values
		case isExtra && key != "":
			if as.Extra == nil {
				as.Extra = map[string][]string{}
			}
			if _, twice := as.Extra[key]; twice {
				return nil, fmt.Errorf("the header %s is there in two spellings", field)
			}
			as.Extra[key] = values
		case len(values) > 1:
			return nil, fmt.Errorf("the header %s is there %d times", field, len(values))
		default:
			return nil, fmt.Errorf("the header %s is none that an API server knows", field)
		}
	}
	switch {
	case !asked:
		return nil, nil
	case as.User == "":
		return nil, errors.New("it names a group, a uid or extra information, but no user: give Impersonate-User (kubectl --as), too")
	case names > maxImpersonated:
		return nil, fmt.Errorf("it names %d users, groups and others, and at most %d are possible", names, maxImpersonated)
	}
	return &as, nil
}

// checkImpersonated reads whom a request asks to pass off as. Whether the caller may, the cluster says: its agent asks
// it. The hub's grants to the caller bound the request all the same.
func (x *exchange) checkImpersonated(r *http.Request) *kubehttp.Error {
	as, err := readImpersonated(r.Header)
	if err != nil {
		return &kubehttp.Error{
			Code:    http.StatusBadRequest,
			Message: fmt.Sprintf("cluster %q: the request asks to impersonate somebody, and is refused: %v", x.cluster, err),
		}
	}
	x.as = as
	return nil
}

// asActor is whom the audit trail shows beside the caller.
func asActor(as *muxhttp.Impersonated) *audit.Actor {
	if as == nil {
		return nil
	}
	return &audit.Actor{Kind: identity.KindUser, Name: as.User, Groups: as.Groups, UID: as.UID, Extra: as.Extra}
}

// mayCarry says why an agent can't be asked to impersonate, or returns nil.
func (x *exchange) mayCarry(s *session.Session) *kubehttp.Error {
	if x.as == nil || s.Peer().Properties[muxhttp.Impersonation] != "" {
		return nil
	}
	return &kubehttp.Error{Code: http.StatusForbidden, Message: fmt.Sprintf(
		"cluster %q: its agent is of a version that carries no impersonation (kubectl --as): upgrade the agent, or ask without it", x.cluster)}
}
