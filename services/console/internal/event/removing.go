package event

import (
	"cmp"
	"context"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// clocksDiffer is by how much the clock of a cluster may be behind that of the hub.
const clocksDiffer = 5 * time.Minute

// RemovalSaid implements intake.Observer. An event that the service was deleted, or moved away from the cluster, shows
// that the service was the cluster's: without one the cluster says nothing that is told. The events of a removal name
// that one in their ids, so that a service that comes back and is removed again has events of its own.
func (r *Recorder) RemovalSaid(
	ctx context.Context, v store.View, cluster store.Resource, is state.Report,
) ([]store.Event, error) {
	saysFailed := is.Phase == state.PhaseFailed && is.Message != ""
	if is.Phase != state.PhaseRemoved && !saysFailed || !resource.IsName(is.Service) {
		return nil, nil
	}
	left, err := v.LastEvent(ctx, cluster.Name, is.Service, ServiceDeleted, ServiceMoved)
	if err != nil || left == nil {
		return nil, err
	}
	if saysFailed && !is.ObservedTime.IsZero() && is.ObservedTime.Before(left.Time.Add(-clocksDiffer)) {
		return nil, nil // of an apply, and told late: the agent was away
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
	failed, err := v.LastEvent(ctx, cluster.Name, is.Service, ServiceRemovalFailed)
	if err != nil || is.Message == "" && (failed == nil || failed.Seq < left.Seq) {
		return nil, err // it went as the event of the deletion says
	}
	e.Type, e.Severity, e.Message = ServicePruned, info, cmp.Or(is.Message, allRemoved)
	return []store.Event{stored(e, r.Now(), cluster.UID, left.ID)}, nil
}
