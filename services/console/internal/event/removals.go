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

// Confirmed says that what was held goes.
func Confirmed(actor string, clusters int, at time.Time) store.Event {
	return stored(&consolev1.Event{
		Type: RemovalsConfirmed, Severity: info, Actor: actor, Count: int32(clusters),
		Message: "What the catalog does not have is removed from clusters again.",
	}, at)
}
