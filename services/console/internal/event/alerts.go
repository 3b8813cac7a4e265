package event

import (
	"strconv"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/store"
)

// AlertFires says that an alert fires for so many clusters of a group since a time. The same number is said once.
func AlertFires(alert, uid, group string, severity consolev1.Severity, how string, clusters int, since, now time.Time) store.Event {
	return stored(&consolev1.Event{
		Type: AlertFiring, Severity: severity, Alert: alert, Group: group, Message: how, Count: int32(clusters),
	}, now, uid, group, stamp(since), strconv.Itoa(clusters))
}

// AlertFlaps says that an alert begins and ends to fire for a group again and again, since it was told of last.
func AlertFlaps(alert, uid, group string, severity consolev1.Severity, how string, clusters int, since, now time.Time) store.Event {
	return stored(&consolev1.Event{
		Type: AlertFiring, Severity: severity, Alert: alert, Group: group, Message: how, Count: int32(clusters),
	}, now, uid, group, stamp(since), "flaps")
}

// AlertEnds says that this is over. Its severity is that of the alert: a sink that was told of the one is told of the
// other.
func AlertEnds(alert, uid, group string, severity consolev1.Severity, how string, since, now time.Time) store.Event {
	return stored(&consolev1.Event{
		Type: AlertResolved, Severity: severity, Alert: alert, Group: group, Message: how, Duration: span(since, now),
	}, now, uid, group, stamp(since))
}

// AlertNoted says what a person said of an alert: typ is one of AlertAcknowledged, AlertSilenced and AlertUnsilenced.
func AlertNoted(typ, alert, group, actor, how string, now time.Time) store.Event {
	return stored(&consolev1.Event{Type: typ, Severity: info, Alert: alert, Group: group, Actor: actor, Message: how}, now)
}
