// Package accounts says which Kubernetes service accounts a service may be applied as. The console refuses others when
// a service is written, and the agent when it is applied.
package accounts

import (
	"slices"
	"strings"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/wildcard"
)

// reserved are the namespaces whose accounts no pattern means by chance: those of Kubernetes' controllers, some of
// which give themselves any right, and those of the agent.
var reserved = []string{"kube-system", "fairlead-system"} //nolint:gochecknoglobals // a table

// Reserved tells whether an account (namespace/name) is one of Kubernetes' own or of the agent's.
func Reserved(account string) bool {
	namespace, _, _ := strings.Cut(account, "/")
	return slices.Contains(reserved, namespace)
}

// Allowed tells whether an account fits one of the patterns, namespace/name where * stands for any text. A reserved
// account's namespace has to be written out.
func Allowed(patterns []string, account string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		namespace, _, _ := strings.Cut(pattern, "/")
		return wildcard.Match(pattern, account) && (!Reserved(account) || !strings.Contains(namespace, "*"))
	})
}

// Refused tells whether the rules of a project refuse an account to a service in a namespace. Rules that name no
// accounts allow those of their namespaces; without namespaces, but with kinds or denied kinds, those of the service's
// own namespace; and any if they bound nothing.
func Refused(r *deliveryv1.ObjectRules, namespace, account string) bool {
	switch {
	case account == "":
		return false
	case len(r.GetAccounts()) > 0:
		return !Allowed(r.GetAccounts(), account)
	case len(r.GetNamespaces()) > 0:
		return !slices.ContainsFunc(r.GetNamespaces(), func(pattern string) bool { return Allowed([]string{pattern + "/*"}, account) })
	case len(r.GetKinds())+len(r.GetDeniedKinds()) > 0:
		return Reserved(account) || !strings.HasPrefix(account, namespace+"/")
	}
	return false
}
