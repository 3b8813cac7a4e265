package event

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// A line names what its event is about, if it is about something.
func TestALineSaysWhatHappenedToWhat(t *testing.T) {
	t.Parallel()
	const failing = consolev1.Severity_SEVERITY_ERROR
	for want, e := range map[string]*consolev1.Event{
		"1970-01-01 00:00:00 error   sink.failing           sink chat: no": {
			Type: "sink.failing", Severity: failing, Sink: "chat", Message: "no",
		},
		"1970-01-01 00:00:00 error   service.failed         service web at cluster edge: no (ada)": {
			Type: "service.failed", Severity: failing, Service: "web", Cluster: "edge", Message: "no",
			Actor: "user:ada",
		},
		"1970-01-01 00:00:00 error   catalog.restored       back": {
			Type: "catalog.restored", Severity: failing, Message: "back",
		},
	} {
		e.Time = &timestamppb.Timestamp{}
		if got := HappenedLine(e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
