package event

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/store"
)

// SinkFails says how a sink does not take what it should, once since it does not.
func SinkFails(sink, project, uid, how string, since, now time.Time) store.Event {
	return stored(&consolev1.Event{
		Type: SinkFailing, Severity: failing, Sink: sink, Project: project, Message: how,
	}, now, uid, stamp(since))
}

// SinkRecovers says that it does again.
func SinkRecovers(sink, project, uid string, since, now time.Time) store.Event {
	return stored(&consolev1.Event{
		Type: SinkRecovered, Severity: info, Sink: sink, Project: project, Message: "It takes events again.", Duration: span(since, now),
	}, now, uid, stamp(since))
}

// SinkDrops says that events for a sink are given up, once an hour.
func SinkDrops(sink, project, uid, why string, total int64, now time.Time) store.Event {
	return stored(&consolev1.Event{
		Type: SinkDropped, Severity: failing, Sink: sink, Project: project,
		Message: fmt.Sprintf("Events for it are given up, %d since it is there. %s", total, why),
	}, now, uid, strconv.FormatInt(now.Unix()/int64(time.Hour/time.Second), 10))
}

// Trial is an event that only tries a sink, and is not recorded.
func Trial(sink, project, actor string, now time.Time) *consolev1.Event {
	return &consolev1.Event{
		Id: store.NewEventID(), Time: timestamppb.New(now.UTC().Truncate(time.Microsecond)), Type: Test, Severity: info,
		Project: project, Sink: sink, Actor: actor,
		Message: "This is a test: nothing happened.",
	}
}
