package event

import (
	"cmp"
	"context"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// RemovalSaid implements intake.Observer. An event that the service was deleted, or moved away from the cluster, shows
// that the service was the cluster's: without one the cluster says nothing that is told. The events of a removal name
// that one in their ids, so that a service that comes back and is removed again has events of its own. The end of a
// removal that failed is told when that event was trimmed, too. A report with a digest is about an apply: of a service
// that leaves, the agent knows no content.
func (r *Recorder) RemovalSaid(
	ctx context.Context, v store.View, cluster store.Resource, is state.Report,
) ([]store.Event, error) {
	saysFailed := is.Phase == state.PhaseFailed && is.Message != "" && is.Digest == ""
	if is.Phase != state.PhaseRemoved && !saysFailed || !resource.IsName(is.Service) {
		return nil, nil
	}
	left, err := v.LastEvent(ctx, cluster.Name, is.Service, ServiceDeleted, ServiceMoved)
	if err != nil || left == nil && saysFailed {
		return nil, err
	}
	failed, err := v.LastEvent(ctx, cluster.Name, is.Service, ServiceRemovalFailed, ServicePruned)
	if err != nil {
		return nil, err
	}
	wasFailing := failed != nil && failed.Type == ServiceRemovalFailed && (left == nil || failed.Seq > left.Seq)
	if left == nil {
		if !wasFailing {
			return nil, nil
		}
		left = failed
	}
	was, err := Decode(*left)
	if err != nil {
		return nil, err
	}
	e := &consolev1.Event{Service: is.Service, Cluster: cluster.Name, Project: was.GetProject()}
	if saysFailed {
		e.Type, e.Severity, e.Message = ServiceRemovalFailed, failing, is.Message
		return []store.Event{stored(e, r.Now(), cluster.UID, left.ID, is.Message)}, nil
	}
	if is.Message == "" && !wasFailing {
		return nil, nil // it went as the event of the deletion says
	}
	e.Type, e.Severity, e.Message = ServicePruned, info, cmp.Or(is.Message, allRemoved)
	return []store.Event{stored(e, r.Now(), cluster.UID, left.ID)}, nil
}
