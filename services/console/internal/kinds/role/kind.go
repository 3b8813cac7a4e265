// Package role is the kind Role: what its subjects may do.
package role

import (
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

// Kind describes the kind.
func Kind() descriptor.Of[resource.Role, *consolev1.Role] {
	d := described()
	d.Mount, d.Policy = mount, policy()
	return d
}

// described is Kind without its API, which works by it.
func described() descriptor.Of[resource.Role, *consolev1.Role] {
	d := descriptor.Plainly(resource.Roles(), descriptor.Always(decode), encode)
	d.Follow = func(c store.Change) (*consolev1.Role, error) {
		r, err := resource.Roles().Decode(c.Resource)
		return encode(r), err
	}
	return d
}
