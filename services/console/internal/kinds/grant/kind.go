// Package grant is the kind Grant: which subjects have which role, and where.
package grant

import (
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

// Kind describes the kind.
func Kind() descriptor.Of[resource.Grant, *consolev1.Grant] {
	d := described()
	d.Mount, d.Policy = mount, policy()
	return d
}

// described is Kind without its API, which works by it.
func described() descriptor.Of[resource.Grant, *consolev1.Grant] {
	return descriptor.Of[resource.Grant, *consolev1.Grant]{
		Kind: store.KindGrant, Decode: descriptor.Always(decode), Encode: encode, Read: resource.ReadGrant,
		Draft: descriptor.DraftBy(catalog.DraftGrant),
		Follow: func(c store.Change) (*consolev1.Grant, error) {
			g, err := resource.ReadGrant(c.Resource)
			return encode(g), err
		},
	}
}
