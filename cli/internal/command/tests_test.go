package command

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/table"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/manifest"
)

const (
	passing = deliveryv1.TestOutcome_TEST_OUTCOME_PASSED
	failing = deliveryv1.TestOutcome_TEST_OUTCOME_FAILED
)

// shopRun is a run of which a bit of everything went wrong.
func shopRun() *deliveryv1.TestRun {
	return &deliveryv1.TestRun{
		Id: "asked-1", Cause: deliveryv1.TestCause_TEST_CAUSE_REQUEST, Outcome: failing, Commit: "fedcba9876",
		Message:   "2 of 4 tests failed",
		StartTime: before(3 * time.Minute), EndTime: before(2 * time.Minute),
		Results: []*deliveryv1.TestResult{
			{
				Kind: "Job", Namespace: "shop", Name: "api", Outcome: failing, Attempts: 2,
				StartTime: before(3 * time.Minute), EndTime: before(160 * time.Second),
				Message: "exit code 1", Log: "one\x1b[31m\ntwo\n", LogCut: true, CasesPassed: 7, CasesFailed: 3,
				Cases: []*deliveryv1.TestCase{
					{
						Class: "cart", Name: "adds <one>", Outcome: failing,
						Duration: durationpb.New(1500 * time.Millisecond), Message: "want 1,\ngot 2\x00",
					},
					{Name: "empties", Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_ERROR},
					{Class: "cart", Name: "opens", Outcome: passing},
					{Class: "cart", Name: "pays", Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED},
				},
			},
			{
				Kind: "Pod", Namespace: "shop", Name: "smoke", Outcome: passing, Attempts: 1,
				StartTime: before(160 * time.Second), EndTime: before(2 * time.Minute),
			},
			{
				Kind: "Job", Namespace: "shop", Name: "crash", Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_TIMED_OUT,
				Attempts: 1, Message: "took longer than 1m",
				CasesPassed: 1, Cases: []*deliveryv1.TestCase{{Name: "begins", Outcome: passing}},
			},
			{Kind: "Job", Namespace: "shop", Name: "last"},
		},
	}
}

func TestRunsOfTestsAreShownTestByTest(t *testing.T) {
	t.Parallel()
	want := `run asked-1 failed after 1m0s, 3m ago, asked for, commit fedcba98: 2 of 4 tests failed

TEST OUTCOME TOOK ATTEMPTS CASES MESSAGE
shop/api (Job) failed 20s 2 7 passed, 3 failed exit code 1
shop/smoke (Pod) passed 40s 1 - -
shop/crash (Job) timed out - 1 1 passed, 0 failed took longer than 1m
shop/last (Job) waiting - 0 - -

shop/api (Job):
failed cart: adds <one>: want 1, got 2
error empties
and 1 more
`
	if got := squeeze((view{now: noon()}).testRun(shopRun(), false)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	logs := (view{now: noon()}).testRun(shopRun(), true)
	if !strings.HasSuffix(logs, "\n--- log of shop/api (Job) (its end)\n"+table.CleanLine("one\x1b[31m")+"\ntwo\n") ||
		strings.Contains(logs, "\x1b") {
		t.Errorf("logs: %q", logs)
	}
}

func TestRunsOfTestsAreJUnit(t *testing.T) {
	t.Parallel()
	text, err := renderJUnit("shop", shopRun())
	if err != nil {
		t.Fatal(err)
	}
	var got junitReport
	if err := xml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if got.Name != "shop" || got.Tests != 8 || got.Failures != 1 || got.Errors != 2 || got.Skipped != 2 ||
		got.Time != "60.000" || len(got.Suites) != 4 {
		t.Errorf("got %+v", got)
	}
	api, smoke, crash := got.Suites[0], got.Suites[1], got.Suites[2]
	if c := api.Cases[0]; api.Tests != 4 || c.Class != "cart" || c.Name != "adds <one>" || c.Time != "1.500" ||
		c.Failure == nil || c.Failure.Text != "want 1,\ngot 2\uFFFD" {
		t.Errorf("api: %+v", api)
	}
	if !strings.Contains(api.Log, "two\n") || api.Name != "shop/api" {
		t.Errorf("api: %+v", api)
	}
	if len(smoke.Cases) != 1 || smoke.Cases[0].Name != "shop/smoke" || smoke.Failures+smoke.Errors > 0 {
		t.Errorf("smoke: %+v", smoke)
	}
	if len(crash.Cases) != 2 || crash.Cases[1].Error == nil || crash.Cases[1].Error.Message != "timed out" ||
		crash.Cases[1].Error.Text != "took longer than 1m" {
		t.Errorf("crash: %+v", crash)
	}
	// Tests that did not run at all are not green.
	text, err = renderJUnit("shop", &deliveryv1.TestRun{
		Id: "a", Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_ERROR, Message: "the service waits",
	})
	if err != nil || !strings.Contains(text, `errors="1"`) || !strings.Contains(text, "the service waits") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestTestsAreShownWithTheirService(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tests                *deliveryv1.TestSummary
		wide, trace, verdict string
		noted                bool
	}{
		"passed": {
			&deliveryv1.TestSummary{
				Id: "a", Outcome: passing, Digest: "sha256:0123456789", Passed: 3, EndTime: before(2 * time.Minute),
			},
			"passed 3/3 (2m)", "TESTS ok for 2m: run a passed 3/3", "nothing to do", false,
		},
		"failed": {
			&deliveryv1.TestSummary{
				Id: "a", Outcome: failing, Digest: "sha256:0123456789", Passed: 2, Failed: 1,
				EndTime: before(2 * time.Minute),
			},
			"failed 2/3 (2m)", "TESTS FAIL for 2m: run a failed 2/3",
			"it stands at TESTS for 2m: 1 of its 3 tests failed. Next: see `fairlead test results service shop-a`.",
			true,
		},
		"of before": {
			&deliveryv1.TestSummary{
				Id: "a", Outcome: failing, Digest: "sha256:other", Passed: 2, Failed: 1,
				EndTime: before(2 * time.Minute),
			},
			"failed 2/3 (2m, older revision)", "with what was handed out before", "nothing to do", false,
		},
		"running": {
			&deliveryv1.TestSummary{
				Id: "a", Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING, Digest: "sha256:0123456789",
				StartTime: before(time.Minute),
			},
			"running (60s)", "TESTS ok for 60s: run a running", "nothing to do", false,
		},
		"none": {nil, "healthy 3/3 (3m) - -", "", "nothing to do", false},
	} {
		tr := well()
		tr.service.GetStatus().GetCluster().GetReport().Tests = c.tests
		wide := squeeze(render(t, view{now: noon(), wide: true}, serviceKind(), []manifest.Message{tr.service}))
		if !strings.Contains(wide, " "+c.wide+" ") ||
			strings.Contains(wide, "fairlead test results service shop-a") != c.noted {
			t.Errorf("%s: get:\n%s", name, wide)
		}
		text := squeeze(tr.renderText(tr.listSteps()))
		if !strings.Contains(text, c.trace) || !strings.Contains(text, c.verdict) ||
			strings.Contains(text, "TESTS") != (c.tests != nil) {
			t.Errorf("%s: trace:\n%s", name, text)
		}
	}
}
