package event

import (
	"fmt"
	"strings"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/store"
)

// Restored says that the database was put back to an earlier state.
func Restored(reason string, at time.Time) store.Event {
	return stored(&consolev1.Event{
		Type: CatalogRestored, Severity: warning,
		Message: "The catalog may have forgotten services: " + reason +
			". None is removed from a cluster until somebody confirms it: see `fairlead confirm removals`.",
	}, at)
}

// Held says what stays in a cluster.
func Held(cluster string, services []string, at time.Time) store.Event {
	const shown = 10
	names := strings.Join(services[:min(len(services), shown)], ", ")
	if more := len(services) - shown; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return stored(&consolev1.Event{
		Type: RemovalsHeld, Severity: warning, Cluster: cluster, Count: int32(len(services)),
		Message: "It has services that the catalog does not have, and keeps them until somebody confirms that they are to go: " + names + ". Make them again, or see `fairlead confirm removals`.",
	}, at)
}

// Confirmed says that what was held goes, of each cluster: an alert of what it keeps is the cluster's own.
func Confirmed(actor string, clusters []string, at time.Time) (out []store.Event) {
	if len(clusters) == 0 {
		clusters = []string{""}
	}
	for _, cluster := range clusters {
		out = append(out, stored(&consolev1.Event{
			Type: RemovalsConfirmed, Severity: info, Cluster: cluster, Actor: actor,
			Message: "What the catalog does not have is removed again.",
		}, at))
	}
	return out
}

// Resolved says that nothing is held in a cluster any more, and that nobody confirmed it.
func Resolved(cluster string, at time.Time) store.Event {
	return stored(&consolev1.Event{
		Type: RemovalsResolved, Severity: info, Cluster: cluster,
		Message: "It has no services any more that the catalog does not have.",
	}, at)
}
