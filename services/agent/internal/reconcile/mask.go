package reconcile

import (
	"errors"
	"slices"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
)

// maskReport takes the secrets of a service's configuration out of what is told of it.
func maskReport(service desired.Service, report *deliveryv1.ServiceReport) {
	mask := service.Mask()
	if mask == nil {
		return
	}
	report.Message = mask(report.GetMessage())
	objects := report.GetObjects()
	if repaired := report.GetRepaired(); repaired != nil {
		objects = append(slices.Clip(objects), repaired)
	}
	for _, o := range objects {
		o.Message = mask(o.GetMessage())
	}
}

// maskText is maskReport for a text.
func maskText(service desired.Service, text string) string {
	if mask := service.Mask(); mask != nil {
		return mask(text)
	}
	return text
}

// failure is what went wrong with an object of a service, without secrets of its configuration.
func (k *keeper) failure(text string) error {
	service, _ := k.Desired.Get(k.name)
	return errors.New(maskText(service, text))
}
