package trial

import (
	"fmt"
	"strconv"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/cron"
)

// madeUp is how long ago a time of the schedule may be that passed while no agent looked.
const madeUp = time.Hour

// dueRun says which run is to begin now, and else when to look again; 0: when something is wanted. A request comes
// before a revision, and that before the schedule. due may note in s how far the schedule is.
func dueRun(s *state, in Input, now time.Time) (*run, time.Duration) {
	next := func(id string, cause deliveryv1.TestCause) *run {
		return &run{ID: id, Cause: cause, Digest: in.Service.RevisionDigest(), Commit: in.Record.Applied.Commit, Set: in.Set, Start: now}
	}
	if id := in.Service.TestRequest.GetId(); id != "" && !s.hasRun(id) {
		return next(id, deliveryv1.TestCause_TEST_CAUSE_REQUEST), 0
	}
	if in.Why != "" {
		return nil, 0
	}
	if in.Service.Tests.GetOn() == deliveryv1.TestTrigger_TEST_TRIGGER_REVISION && in.IsHealthy {
		if id := revisionID(in); !s.hasRun(id) {
			return next(id, deliveryv1.TestCause_TEST_CAUSE_REVISION), 0
		}
	}
	return s.dueBySchedule(in, now, next)
}

// revisionID names the run of a revision, the same for each agent.
func revisionID(in Input) string {
	return fmt.Sprintf("revision-%d-%.8s", in.Record.Release.Revision, plainDigest(in.Service.RevisionDigest()))
}

// plainDigest leaves of a digest what may be in an id.
func plainDigest(digest string) string {
	var out []byte
	for _, c := range []byte(digest) {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' {
			out = append(out, c)
		}
	}
	return string(out[max(0, len(out)-8):])
}

// dueBySchedule says whether a time of the schedule has come, and else when the next one does.
func (s *state) dueBySchedule(in Input, now time.Time, next func(string, deliveryv1.TestCause) *run) (*run, time.Duration) {
	text := in.Service.Tests.GetSchedule()
	if text == "" {
		s.Schedule, s.Through = "", time.Time{}
		return nil, 0
	}
	schedule, err := cron.Parse(text, in.Service.Tests.GetTimeZone())
	if err != nil {
		return nil, 0 // the hub takes none such
	}
	if named := text + " " + in.Service.Tests.GetTimeZone(); s.Schedule != named {
		s.Schedule, s.Through = named, now
	}
	wait := schedule.Next(now).Sub(now) + time.Millisecond
	at := schedule.Last(now)
	if !at.After(s.Through) {
		return nil, wait
	}
	s.Through = at
	if id := "schedule-" + strconv.FormatInt(at.Unix(), 10); now.Sub(at) < madeUp && !s.hasRun(id) {
		return next(id, deliveryv1.TestCause_TEST_CAUSE_SCHEDULE), 0
	}
	return nil, wait
}
