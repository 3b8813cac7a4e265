package serviceaccount

import (
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/descriptor"
)

func decode(a *consolev1.ServiceAccount) catalog.ServiceAccount {
	return catalog.ServiceAccount{
		Meta: descriptor.Meta(a.GetMetadata()), Spec: catalog.ServiceAccountSpec{Description: a.GetSpec().GetDescription(), Disabled: a.GetSpec().GetDisabled()},
	}
}

func encode(a catalog.ServiceAccount) *consolev1.ServiceAccount {
	return &consolev1.ServiceAccount{
		Metadata: descriptor.Metadata(a.Meta), Spec: &consolev1.ServiceAccountSpec{Description: a.Spec.Description, Disabled: a.Spec.Disabled},
	}
}
