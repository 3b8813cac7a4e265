package catalog

import (
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Observer makes events of what statuses say. Events are written with the status, or not at all; the same may be told
// again, and events that are the same are kept once.
type Observer interface {
	// ClusterSaid has no before when there was no report. Of the service there are its names, its project and its
	// cluster.
	ClusterSaid(service state.Service, before *state.Report, after state.Report) []store.Event
	// Gather finishes events of services that one transaction writes: what happened to many at once becomes one event.
	Gather(events []store.Event) []store.Event
	RolledBack(by By, service state.Service, to Deployment) []store.Event
	// LeverEnding says that a lever is going to end by its own time.
	LeverEnding(service state.Service, lever state.Lever) []store.Event
	// FreezeEnding says that of the freeze of a project or cluster.
	FreezeEnding(of store.Resource, freeze state.Freeze) []store.Event
	// GlobalHeld says that the guard keeps services of a global service, and GlobalConfirmed that somebody let them go.
	GlobalHeld(by By, global resource.GlobalService, services int) []store.Event
	GlobalConfirmed(by By, global resource.GlobalService, services int) []store.Event
}
