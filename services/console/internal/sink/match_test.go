package sink

import (
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/event"
	"fairlead.dev/services/console/internal/resource"
	"fairlead.dev/services/console/internal/store"
)

// Events of alerts name clusters, whoever may see them: they are for sinks of the hub, whatever a sink of a project
// asks for.
func TestSinksOfAProjectGetNoEventsOfAlerts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)
	severe := consolev1.Severity_SEVERITY_ERROR
	for _, row := range []store.Event{
		event.AlertFires("pods", "uid", "eu", severe, "edge-1", 1, now, now),
		event.AlertEnds("pods", "uid", "eu", severe, "edge-1", now, now),
		event.AlertNoted(event.AlertAcknowledged, "pods", "eu", "user:ada", "x", now),
		event.AlertNoted(event.AlertSilenced, "pods", "eu", "user:ada", "x", now),
		event.AlertNoted(event.AlertUnsilenced, "pods", "eu", "user:ada", "x", now),
	} {
		told, err := event.Decode(row)
		if err != nil {
			t.Fatal(err)
		}
		for name, filters := range map[string]resource.SinkSpec{
			"by type": {Types: []string{"alert.*"}}, "all": {Severity: "INFO"},
			"by filter":       {Severity: "INFO", Filter: "alert = pods"},
			"an alerting one": {Severity: "INFO", PagerDuty: &resource.PagerDutySink{}},
		} {
			if got := newMatcher("hub", filters).list(numbered{1, told}, now); len(got) != 1 {
				t.Errorf("%s: a sink of the hub gets %d of %s", name, len(got), protojson.Format(told.Event))
			}
			filters.Project = "shop"
			if got := newMatcher("own", filters).list(numbered{1, told}, now); len(got) > 0 {
				t.Errorf("%s: a sink of a project gets %v", name, got)
			}
		}
	}
}

// Events on a sink tell of its troubles elsewhere, and never go to itself: they would fail there and be told anew.
func TestEventsOfASinkGoToOtherSinks(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)
	for _, row := range []store.Event{
		event.SinkRecovers("chat", "", "uid", now, now), event.SinkDrops("chat", "", "uid", "It is full.", 3, now),
		event.SinkFails("chat", "", "uid", "401.", now, now),
	} {
		told, err := event.Decode(row)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]int{"chat": 0, "mail": 1} {
			if got := newMatcher(name, resource.SinkSpec{Types: []string{"sink.*"}}).list(numbered{1, told}, now); len(got) != want {
				t.Errorf("sink %s gets %v", name, got)
			}
		}
	}
}
