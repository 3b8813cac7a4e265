package trial

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/set"
)

const (
	running  = deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING
	passed   = deliveryv1.TestOutcome_TEST_OUTCOME_PASSED
	failedIt = deliveryv1.TestOutcome_TEST_OUTCOME_FAILED
	timedOut = deliveryv1.TestOutcome_TEST_OUTCOME_TIMED_OUT
	aborted  = deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED
	cannot   = deliveryv1.TestOutcome_TEST_OUTCOME_ERROR
	skipped  = deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED
)

func ofOutcomes(outcomes ...deliveryv1.TestOutcome) []test {
	var tests []test
	for _, outcome := range outcomes {
		tests = append(tests, test{
			Kind: "Job", Namespace: "shop", Name: "a", Outcome: outcome, Message: "why", Attempt: 1,
			Began: time.Unix(1, 0), End: time.Unix(2, 0),
		})
	}
	return tests
}

func TestHowTestsWentTogether(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		tests   []test
		outcome deliveryv1.TestOutcome
		message string
	}{
		{ofOutcomes(passed, passed), passed, ""},
		{ofOutcomes(passed, aborted, cannot, timedOut, failedIt, skipped), failedIt, "Job shop/a failed: why."},
		{ofOutcomes(aborted, cannot, timedOut), timedOut, "Job shop/a took too long: why."},
		{ofOutcomes(aborted, cannot), cannot, "Job shop/a could not run: why."},
		{ofOutcomes(passed, aborted), aborted, "Job shop/a was ended: why."},
	} {
		outcome, message := sumVerdict(test.tests)
		if outcome != test.outcome || message != test.message {
			t.Errorf("got %s %q, want %s %q", outcome, message, test.outcome, test.message)
		}
	}
}

func TestWhichObjectsGo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flags    object.Flags
		own, all deliveryv1.TestOutcome
		goes     bool
	}{
		{0, passed, passed, true},
		{0, passed, failedIt, false},
		{0, failedIt, failedIt, false},
		{object.DeleteBefore, passed, passed, false},
		{object.DeleteBefore, failedIt, failedIt, false},
		{object.DeleteSucceeded, passed, failedIt, true},
		{object.DeleteSucceeded, failedIt, failedIt, false},
		{object.DeleteFailed, failedIt, failedIt, true},
		{object.DeleteFailed, passed, passed, false},
		{object.DeleteBefore | object.DeleteSucceeded | object.DeleteFailed, timedOut, timedOut, true},
	} {
		if got := goesAfter(test.flags, test.own, test.all); got != test.goes {
			t.Errorf("flags %b, %s of %s: %t", test.flags, test.own, test.all, got)
		}
	}
}

func TestTheEndOfARun(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	var s state
	for range 2 * mostSeen {
		s.beginRun(run{ID: "before"})
		s.endRun(passed, "", at)
	}
	s.beginRun(run{ID: "one", Digest: "sha256:1", Start: at})
	if len(s.Seen) != mostSeen || s.Seen[mostSeen-1] != "one" {
		t.Errorf("seen: %v", s.Seen)
	}
	s.Run.Tests = append(ofOutcomes(passed),
		test{Kind: "ConfigMap", Name: "b", Fixture: true, Outcome: passed, End: at},
		test{Kind: "Job", Name: "c", Attempt: 1, Began: at}, test{Kind: "Job", Name: "d"})
	s.noteObject(object.Ref{Key: object.Key{Kind: "Job", Name: "c"}}, "")
	s.noteObject(object.Ref{Key: object.Key{Kind: "Job", Name: "c"}}, "uid")
	record, err := s.writeState(inventory.Record{Service: "web"})
	if err != nil {
		t.Fatal(err)
	}
	if got := Summary(record); got.GetOutcome() != running || got.GetPassed() != 1 || got.GetFailed() != 0 ||
		got.GetEndTime() != nil {
		t.Errorf("got %v", got)
	}
	if digest, _, ok := Running(record); digest != "sha256:1" || !ok {
		t.Errorf("got %s, %t", digest, ok)
	}
	if s, err = readState(record); err != nil {
		t.Fatal(err)
	}
	ended := s.endRun(failedIt, "Job c failed.", at.Add(time.Minute))
	if ended.Tests[2].Outcome != failedIt || ended.Tests[3].Outcome != skipped || ended.Tests[0].Outcome != passed {
		t.Errorf("got %v", ended.Tests)
	}
	if record, err = s.writeState(record); err != nil {
		t.Fatal(err)
	}
	got := Summary(record)
	if got.GetOutcome() != failedIt || got.GetPassed() != 1 || got.GetFailed() != 1 ||
		!got.GetEndTime().AsTime().Equal(at.Add(time.Minute)) || Failing(record) != "Job c failed." {
		t.Errorf("got %v, failing %q", got, Failing(record))
	}
	if objects := Objects(record); len(objects) != 1 || objects[0].UID != "uid" || !objects[0].Hook {
		t.Errorf("objects: %v", objects)
	}
	// A run that was ended says nothing; one that passes does.
	s.beginRun(run{ID: "two"})
	s.endRun(aborted, "A newer revision came.", at)
	if s.Failing == "" {
		t.Error("a run that was ended made good for one that failed")
	}
	s.beginRun(run{ID: "three"})
	s.endRun(passed, "", at)
	if s.Failing != "" {
		t.Errorf("got %q", s.Failing)
	}
	if !strings.Contains(string(record.Tests), `"tests":[`) {
		t.Errorf("the tests of a run that the hub may not know are lost: %s", record.Tests)
	}
	s.Failing = "Job c failed."
	s.beginRun(run{ID: "four", Unbegun: true})
	s.endRun(cannot, "The service is suspended.", at)
	if s.Failing != "Job c failed." || s.Last.Message != "The service is suspended." {
		t.Errorf("a run that was not begun says of the service %q", s.Failing)
	}
}

func TestWhatIsNotBegun(t *testing.T) {
	t.Parallel()
	of := func(wave int32, name string) set.Item {
		return set.Item{Ref: object.Ref{Key: object.Key{Kind: "Job", Name: name}}, Wave: wave}
	}
	items := []set.Item{of(0, "a"), of(0, "b"), of(1, "c")}
	for _, one := range []struct {
		before  []test
		want    string
		fixture bool
	}{
		{ofOutcomes(failedIt), "", false},
		{ofOutcomes(passed, failedIt), "was not begun, since Job b before it did not pass", false},
		{ofOutcomes(passed, skipped), "", false},
		{ofOutcomes(cannot), "was not begun, since Job a is not there", true},
	} {
		one.before[0].Fixture = one.fixture
		if got := blockedBy(one.before, items, len(one.before)); got != one.want {
			t.Errorf("got %q, want %q", got, one.want)
		}
	}
}

// A run that was begun with other tests is not gone on with, though there are as many of them.
func TestTheTestsOfARunAreComparedByName(t *testing.T) {
	t.Parallel()
	of := func(kind, name string) set.Item {
		return set.Item{Ref: object.Ref{Key: object.Key{Kind: kind, Namespace: "shop", Name: name}}}
	}
	var tests []test
	for _, item := range []set.Item{of("ConfigMap", "a"), of("Pod", "b")} {
		tests = append(tests, testOf(item))
	}
	for _, one := range []struct {
		items []set.Item
		same  bool
	}{
		{[]set.Item{of("ConfigMap", "a"), of("Pod", "b")}, true},
		{[]set.Item{of("ConfigMap", "a"), of("Pod", "c")}, false},
		{[]set.Item{of("Pod", "b"), of("ConfigMap", "a")}, false},
		{[]set.Item{of("Pod", "b")}, false},
	} {
		if got := sameTests(tests, one.items); got != one.same {
			t.Errorf("%v: got %t", one.items, got)
		}
	}
}

// A run has to fit into a message to the hub, whatever its reports are like.
func TestTheCasesOfARunAreBounded(t *testing.T) {
	t.Parallel()
	long := &deliveryv1.TestCase{Name: strings.Repeat("n", 512), Message: strings.Repeat("m", 2048), Outcome: failedIt}
	r := run{ID: "one", Tests: ofOutcomes(failedIt, passed, failedIt, failedIt)}
	trial := &Trial{outputs: map[int]output{
		1: {report: report{cases: []*deliveryv1.TestCase{{Name: "short"}}, passed: 1}},
	}}
	for _, i := range []int{0, 2, 3} {
		trial.outputs[i] = output{report: report{failed: 1000}}
		for range 1000 {
			kept := trial.outputs[i]
			kept.report.cases = append(kept.report.cases, long)
			trial.outputs[i] = kept
		}
	}
	got := trial.showRun(r)
	if size := proto.Size(got); size > maxCases+16<<10 || size < maxCases-16<<10 || got.GetPartial() {
		t.Errorf("the run has %d bytes", size)
	}
	for i, result := range got.GetResults() {
		if kept := len(result.GetCases()); i == 1 && kept != 1 ||
			i != 1 && (kept < 200 || result.GetCasesFailed() != 1000) {
			t.Errorf("%d: %d cases of %d", i, kept, result.GetCasesFailed())
		}
	}
	delete(trial.outputs, 2)
	if !trial.showRun(r).GetPartial() {
		t.Error("it is not told that there is more")
	}
}
