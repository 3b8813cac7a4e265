// Package role is the kind Role: what its subjects may do.
package role

import (
	"slices"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/access"
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

// isBuiltin says that a role is one of those that are always there, with the same rules.
func isBuiltin(r *consolev1.Role) bool {
	return slices.ContainsFunc(access.Builtin(), func(is *consolev1.Role) bool {
		head := r.GetMetadata()
		return head.GetName() == is.GetMetadata().GetName() && len(head.GetLabels()) == 0 &&
			proto.Equal(r.GetSpec(), is.GetSpec())
	})
}

// described is Kind without its API, which works by it.
func described() descriptor.Of[resource.Role, *consolev1.Role] {
	d := descriptor.Plainly(resource.Roles(), descriptor.Always(decode), encode)
	d.Fixed = isBuiltin
	d.Follow = func(c store.Change) (*consolev1.Role, error) {
		r, err := resource.Roles().Decode(c.Resource)
		return encode(r), err
	}
	return d
}
