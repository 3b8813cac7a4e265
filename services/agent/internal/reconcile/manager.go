package reconcile

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/render"
)

// The words that the templates of a chart see as .Release.Service, and mostly write into the label
// app.kubernetes.io/managed-by or heritage. Agents said Fairlead once; a service that they applied keeps it while
// another word would do harm.
const (
	releasedByHelm     = "Helm"
	releasedByFairlead = "Fairlead"
)

// releaseService is what the chart of a service sees as .Release.Service: Helm, so that objects are those of a Helm
// release. A service that was applied as Fairlead stays so for as long as folder and values do, as the label may be in
// a checksum that restarts pods, and for ever where the label is in a field that can't be changed.
func (s *site) releaseService(ctx context.Context, service desired.Service, record inventory.Record) (string, error) {
	switch {
	case record.Applied.ReleaseService == releasedByHelm || len(record.Entries) == 0:
		return releasedByHelm, nil
	case record.Applied.Set == setOf(service).String():
		return releasedByFairlead, nil
	}
	ask := s.controller.Lookup(service)
	for _, entry := range record.Entries {
		if !slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"}, entry.Kind) || entry.Group != "apps" || entry.UID == "" {
			continue
		}
		var spec map[string]any
		_, err := ask(ctx, entry.GVK(), entry.Namespace, entry.Name, func(live *unstructured.Unstructured) {
			spec, _ = live.Object["spec"].(map[string]any)
		})
		// The service's account may only write it, or its project has become narrower.
		if _, refused := errors.AsType[*render.RefusedError](err); refused || apierrors.IsForbidden(err) {
			return releasedByFairlead, nil
		}
		if err != nil {
			return "", err
		}
		if mentionsText(spec["selector"], releasedByFairlead) || mentionsText(spec["volumeClaimTemplates"], releasedByFairlead) {
			return releasedByFairlead, nil
		}
	}
	return releasedByHelm, nil
}

// mentionsText tells whether a text is somewhere in a value.
func mentionsText(value any, text string) bool {
	switch value := value.(type) {
	case string:
		return value == text
	case []any:
		return slices.ContainsFunc(value, func(item any) bool { return mentionsText(item, text) })
	case map[string]any:
		for _, item := range value {
			if mentionsText(item, text) {
				return true
			}
		}
	}
	return false
}
