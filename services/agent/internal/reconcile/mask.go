package reconcile

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

// secretMask is that of a service with all that is to be hidden by now: a render may have added to it. Nil: there is
// nothing.
func (s *site) secretMask(service desired.Service) func(string) string {
	current, _ := s.controller.Desired.Get(s.name)
	service.Hidden = current.Hidden
	return service.Mask()
}

// maskReport takes the secrets of a service's configuration and values out of what is told of it.
func (s *site) maskReport(service desired.Service, report *deliveryv1.ServiceReport) {
	mask := s.secretMask(service)
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
func (s *site) maskText(service desired.Service, text string) string {
	if mask := s.secretMask(service); mask != nil {
		return mask(text)
	}
	return text
}

// mostSecretBytes bounds the values of Secrets that are looked for in what hooks say.
const mostSecretBytes = 4 << 20

// maskOf takes the secrets of a service's configuration, and the values of its Secrets, out of texts: those of the
// objects that are brought, and of what is applied. The Secrets are read when there is a text, which is while the
// objects are open. If they can't be, or are too many to be looked for, nothing of a text is told.
func (s *site) maskOf(service desired.Service, record inventory.Record, objects *set.Set) func(string) string {
	mask := sync.OnceValue(func() func(string) string {
		secrets, err := secretsOf(objects)
		if last, problem := s.appliedSet(record); problem == nil && err == nil {
			var more []string
			more, err = secretsOf(last)
			secrets, err = append(secrets, more...), errors.Join(err, last.Close())
		}
		if err != nil {
			s.log.Warn("what hooks say is not told, since secrets in it can't be looked for", "err", err)
			return func(string) string { return desired.Masked }
		}
		current, _ := s.controller.Desired.Get(s.name) // a render may have added to what is hidden
		service.Hidden = current.Hidden
		if mask := service.Mask(secrets...); mask != nil {
			return mask
		}
		return func(text string) string { return text }
	})
	return func(text string) string { return mask()(text) }
}

// secretsOf are the values of the Secrets of a set.
func secretsOf(objects *set.Set) ([]string, error) {
	items, err := objects.Items()
	if err != nil {
		return nil, err
	}
	var secrets []string
	size := 0
	for _, item := range items {
		if !item.IsSecret() || item.Flags&object.Hold != 0 {
			continue
		}
		secret, _, err := objects.Object(item)
		if err != nil {
			return nil, err
		}
		data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
		for _, text := range data {
			value, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				continue // the API server refuses it
			}
			if size += len(value); size > mostSecretBytes {
				return nil, fmt.Errorf("the service's Secrets have more than %d bytes", mostSecretBytes)
			}
			secrets = append(secrets, desired.SecretsIn(string(value))...)
		}
	}
	return secrets, nil
}

// maskedError is what went wrong with an object of a service, without secrets of its configuration.
func (s *site) maskedError(text string) error {
	service, _ := s.controller.Desired.Get(s.name)
	return errors.New(s.maskText(service, text))
}
