// Package serviceaccount is the kind ServiceAccount: a name that programs sign in as.
package serviceaccount

import (
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
)

// Kind describes the kind.
func Kind() descriptor.Of[resource.ServiceAccount, *consolev1.ServiceAccount] {
	d := descriptor.Plainly(resource.ServiceAccounts(), descriptor.Always(decode), encode)
	d.Policy = policy()
	return d
}
