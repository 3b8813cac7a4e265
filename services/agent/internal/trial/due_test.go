package trial

import (
	"testing"
	"time"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
)

func TestWhichRunIsDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 3, 30, 0, 0, time.UTC)
	const daily = "0 3 * * *"
	onRevision := &deliveryv1.TestSpec{On: deliveryv1.TestTrigger_TEST_TRIGGER_REVISION}
	scheduled := &deliveryv1.TestSpec{Schedule: daily}
	request := &deliveryv1.TestRequest{Id: "one"}
	through := func(at time.Time) state { return state{Schedule: daily + " ", Through: at} }
	for _, test := range []struct {
		name    string
		state   state
		spec    *deliveryv1.TestSpec
		request *deliveryv1.TestRequest
		healthy bool
		why     string
		want    string
		wait    time.Duration
	}{
		{"nothing is asked", state{}, nil, nil, true, "", "", 0},
		{"asked for", state{}, nil, request, false, "", "one", 0},
		{"asked for once", state{Seen: []string{"one"}}, nil, request, true, "", "", 0},
		{"asked for long before many others", state{Request: "one"}, nil, request, true, "", "", 0},
		{
			"a revision that was tested long before",
			state{Revision: "revision-3-deadbeef"},
			onRevision, nil, true,
			"", "", 0,
		},
		{"asked for and refused", state{}, nil, request, false, "suspended", "one", 0},
		{"asked for first", state{}, onRevision, request, true, "", "one", 0},
		{"a revision", state{}, onRevision, nil, true, "", "revision-3-deadbeef", 0},
		{"a revision that is not healthy", state{}, onRevision, nil, false, "", "", 0},
		{"a revision that is not applied", state{}, onRevision, nil, true, "not applied", "", 0},
		{
			"a revision that was tested",
			state{Seen: []string{"revision-3-deadbeef"}},
			onRevision, request, true, "",
			"one", 0,
		},
		{"a new schedule", state{}, scheduled, nil, true, "", "", 23*time.Hour + 30*time.Minute},
		{
			"another schedule",
			state{Schedule: "0 2 * * * ", Through: now.Add(-24 * time.Hour)},
			scheduled, nil, true,
			"", "", 23*time.Hour + 30*time.Minute,
		},
		{"on time", through(now.Add(-24 * time.Hour)), scheduled, nil, false, "", "schedule-1795230000", 0},
		{"done", through(now.Add(-30 * time.Minute)), scheduled, nil, false, "", "", 23*time.Hour + 30*time.Minute},
		{"on hold", through(now.Add(-24 * time.Hour)), scheduled, nil, false, "held", "", 0},
	} {
		in := Input{
			Service: desired.Service{
				Digest: "sha256:feed", ContentDigest: "sha256:00deadbeef", Tests: test.spec, TestRequest: test.request,
			},
			Record: inventory.Record{Release: inventory.Release{Revision: 3}}, IsHealthy: test.healthy, Why: test.why,
		}
		s := test.state
		got, wait := dueRun(&s, in, now)
		id := ""
		if got != nil {
			id = got.ID
			if got.Digest != "sha256:00deadbeef" {
				t.Errorf("%s: of %s", test.name, got.Digest)
			}
		}
		if id != test.want || wait.Truncate(time.Second) != test.wait {
			t.Errorf("%s: %q in %s, want %q in %s", test.name, id, wait, test.want, test.wait)
		}
	}
	// A time that passed long ago is not made up for, and one that did a moment ago is, once.
	for _, test := range []struct {
		away time.Duration
		want bool
	}{{59 * time.Minute, true}, {61 * time.Minute, false}} {
		s := through(now.Add(-24 * time.Hour))
		later := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC).Add(test.away)
		in := Input{Service: desired.Service{Tests: scheduled}}
		got, _ := dueRun(&s, in, later)
		if (got != nil) != test.want {
			t.Errorf("after %s: %v", test.away, got)
		}
		if again, _ := dueRun(&s, in, later); again != nil {
			t.Errorf("after %s it is due twice", test.away)
		}
	}
}
