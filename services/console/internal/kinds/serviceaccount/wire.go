package serviceaccount

import (
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/resource"
)

func decode(a *consolev1.ServiceAccount) resource.ServiceAccount {
	return resource.ServiceAccount{
		Meta: descriptor.Meta(a.GetMetadata()), Spec: resource.ServiceAccountSpec{Description: a.GetSpec().GetDescription(), Disabled: a.GetSpec().GetDisabled()},
	}
}

func encode(a resource.ServiceAccount) *consolev1.ServiceAccount {
	return &consolev1.ServiceAccount{
		Metadata: descriptor.Metadata(a.Meta), Spec: &consolev1.ServiceAccountSpec{Description: a.Spec.Description, Disabled: a.Spec.Disabled},
	}
}
