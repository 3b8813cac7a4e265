package trail

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/cli/internal/clitest"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/view"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalogyaml"
)

func TestTestsAreShownWithTheirService(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tests                *deliveryv1.TestSummary
		wide, trace, verdict string
		noted                bool
	}{
		"passed": {
			&deliveryv1.TestSummary{
				Id: "a", Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_PASSED, Digest: "sha256:0123456789", Passed: 3, EndTime: clitest.Before(2 * time.Minute),
			},
			"passed 3/3 (2m)", "TESTS ok for 2m: run a passed 3/3", "nothing to do", false,
		},
		"failed": {
			&deliveryv1.TestSummary{
				Id: "a", Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_FAILED, Digest: "sha256:0123456789", Passed: 2, Failed: 1,
				EndTime: clitest.Before(2 * time.Minute),
			},
			"failed 2/3 (2m)", "TESTS FAIL for 2m: run a failed 2/3",
			"it stands at TESTS for 2m: 1 of its 3 tests failed. Next: see `fairlead test results service shop-a`.",
			true,
		},
		"of before": {
			&deliveryv1.TestSummary{
				Id: "a", Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_FAILED, Digest: "sha256:other", Passed: 2, Failed: 1,
				EndTime: clitest.Before(2 * time.Minute),
			},
			"failed 2/3 (2m, older revision)", "with what was handed out before", "nothing to do", false,
		},
		"running": {
			&deliveryv1.TestSummary{
				Id: "a", Outcome: deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING, Digest: "sha256:0123456789",
				StartTime: clitest.Before(time.Minute),
			},
			"running (60s)", "TESTS ok for 60s: run a running", "nothing to do", false,
		},
		"none": {nil, "healthy 3/3 (3m) - -", "", "nothing to do", false},
	} {
		tr := well()
		tr.Service.GetStatus().GetCluster().GetReport().Tests = c.tests
		v := view.View{Now: clitest.Noon(), Wide: true}
		rows, notes := v.BuildTable(resource.ServiceKind(), []catalogyaml.Message{tr.Service})
		var shown strings.Builder
		if err := rows.Write(&shown); err != nil {
			t.Fatal(err)
		}
		wide := clitest.Squeeze(shown.String() + v.NotesText(notes))
		if !strings.Contains(wide, " "+c.wide+" ") ||
			strings.Contains(wide, "fairlead test results service shop-a") != c.noted {
			t.Errorf("%s: get:\n%s", name, wide)
		}
		text := clitest.Squeeze(tr.RenderText(tr.ListSteps()))
		if !strings.Contains(text, c.trace) || !strings.Contains(text, c.verdict) ||
			strings.Contains(text, "TESTS") != (c.tests != nil) {
			t.Errorf("%s: trace:\n%s", name, text)
		}
	}
}
