package lever

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
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
		StartTime: clitest.Before(3 * time.Minute), EndTime: clitest.Before(2 * time.Minute),
		Results: []*deliveryv1.TestResult{
			{
				Kind: "Job", Namespace: "shop", Name: "api", Outcome: failing, Attempts: 2,
				StartTime: clitest.Before(3 * time.Minute), EndTime: clitest.Before(160 * time.Second),
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
				StartTime: clitest.Before(160 * time.Second), EndTime: clitest.Before(2 * time.Minute),
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
	if got := clitest.Squeeze((view.View{Now: clitest.Noon()}).TestRun(shopRun(), false)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	logs := (view.View{Now: clitest.Noon()}).TestRun(shopRun(), true)
	if !strings.HasSuffix(logs, "\n--- log of shop/api (Job) (its end)\n"+table.CleanLine("one\x1b[31m")+"\ntwo\n") ||
		strings.Contains(logs, "\x1b") {
		t.Errorf("logs: %q", logs)
	}
}
