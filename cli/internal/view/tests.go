package view

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/table"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalogyaml"
)

// TestRun is a run for people.
func (v View) TestRun(run *deliveryv1.TestRun, logs bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s %s", run.GetId(), TestOutcome(run.GetOutcome()))
	if took := FormatDuration(run.GetStartTime(), run.GetEndTime()); took != "" {
		fmt.Fprintf(&b, " after %s", took)
	}
	for _, part := range []string{v.AgoText(run.GetStartTime()), testCause(run.GetCause())} {
		if part != "" {
			b.WriteString(", " + part)
		}
	}
	if run.GetCommit() != "" {
		b.WriteString(", commit " + ShortHash(run.GetCommit()))
	}
	if run.GetMessage() != "" {
		b.WriteString(": " + run.GetMessage())
	}
	head := table.CleanLine(b.String())
	b.Reset()
	b.WriteString(head + "\n")
	if len(run.GetResults()) == 0 {
		return b.String()
	}
	t := table.New("TEST", "OUTCOME", "TOOK", "ATTEMPTS", "CASES", "MESSAGE")
	for _, r := range run.GetResults() {
		t.AddRow(TestTitle(r), TestOutcome(r.GetOutcome()), FormatDuration(r.GetStartTime(), r.GetEndTime()),
			fmt.Sprint(r.GetAttempts()), caseCount(r), r.GetMessage())
	}
	b.WriteByte('\n')
	_ = t.Write(&b) // A strings.Builder takes everything.
	for _, r := range run.GetResults() {
		failedCases(&b, r)
	}
	if logs {
		for _, r := range run.GetResults() {
			testLog(&b, r)
		}
	}
	return b.String()
}

// failedCases lists the cases of a test that did not pass.
func failedCases(b *strings.Builder, r *deliveryv1.TestResult) {
	listed := int32(0)
	for _, c := range r.GetCases() {
		if !WentWrong(c.GetOutcome()) {
			continue
		}
		if listed++; listed == 1 {
			fmt.Fprintf(b, "\n%s:\n", table.CleanLine(TestTitle(r)))
		}
		line := TestOutcome(c.GetOutcome()) + " "
		if c.GetClass() != "" {
			line += c.GetClass() + ": "
		}
		line += c.GetName()
		if c.GetMessage() != "" {
			line += ": " + c.GetMessage()
		}
		fmt.Fprintf(b, "  %s\n", table.CleanLine(line))
	}
	if more := r.GetCasesFailed() - listed; more > 0 && listed > 0 {
		fmt.Fprintf(b, "  and %d more\n", more)
	}
}

// testLog is what a test wrote, line by line: a terminal shows it as text, whatever is in it.
func testLog(b *strings.Builder, r *deliveryv1.TestResult) {
	if r.GetLog() == "" {
		return
	}
	cut := ""
	if r.GetLogCut() {
		cut = " (its end)"
	}
	fmt.Fprintf(b, "\n--- log of %s%s\n", table.CleanLine(TestTitle(r)), cut)
	for line := range strings.Lines(r.GetLog()) {
		b.WriteString(table.CleanLine(line) + "\n")
	}
}

// TestTitle is like shop/smoke (Job).
func TestTitle(r *deliveryv1.TestResult) string {
	return fmt.Sprintf("%s (%s)", strings.TrimPrefix(r.GetNamespace()+"/"+r.GetName(), "/"), r.GetKind())
}

// TestOutcome is like "timed out".
func TestOutcome(o deliveryv1.TestOutcome) string {
	if o == deliveryv1.TestOutcome_TEST_OUTCOME_UNSPECIFIED {
		return "waiting"
	}
	return strings.ReplaceAll(catalogyaml.Short(o), "-", " ")
}

func testCause(c deliveryv1.TestCause) string {
	switch c {
	case deliveryv1.TestCause_TEST_CAUSE_REQUEST:
		return "asked for"
	case deliveryv1.TestCause_TEST_CAUSE_REVISION:
		return "of the revision"
	case deliveryv1.TestCause_TEST_CAUSE_SCHEDULE:
		return "on schedule"
	}
	return ""
}

// WentWrong says whether what ended so counts as failed.
func WentWrong(o deliveryv1.TestOutcome) bool {
	switch o {
	case deliveryv1.TestOutcome_TEST_OUTCOME_FAILED, deliveryv1.TestOutcome_TEST_OUTCOME_TIMED_OUT,
		deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED, deliveryv1.TestOutcome_TEST_OUTCOME_ERROR:
		return true
	}
	return false
}

// TestCount is how many tests of a run passed, like "2 of 3".
func TestCount(run *deliveryv1.TestRun) string {
	passed := 0
	for _, r := range run.GetResults() {
		if r.GetOutcome() == deliveryv1.TestOutcome_TEST_OUTCOME_PASSED {
			passed++
		}
	}
	if len(run.GetResults()) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", passed, len(run.GetResults()))
}

func caseCount(r *deliveryv1.TestResult) string {
	if r.GetCasesPassed()+r.GetCasesFailed()+r.GetCasesSkipped() == 0 {
		return ""
	}
	text := fmt.Sprintf("%d passed, %d failed", r.GetCasesPassed(), r.GetCasesFailed())
	if r.GetCasesSkipped() > 0 {
		text += fmt.Sprintf(", %d skipped", r.GetCasesSkipped())
	}
	return text
}

// SummarizeTests returns the latest run of a service's tests in few words, like "failed, 1 of 3 passed"; empty: there
// was none.
func SummarizeTests(t *deliveryv1.TestSummary) string {
	if t.GetId() == "" {
		return ""
	}
	text := TestOutcome(t.GetOutcome())
	if all := t.GetPassed() + t.GetFailed(); all > 0 {
		text += fmt.Sprintf(" %d/%d", t.GetPassed(), all)
	}
	return text
}

// FormatDuration returns how long something took; empty if its end is not known.
func FormatDuration(begin, end *timestamppb.Timestamp) string {
	if !IsSet(begin) || !IsSet(end) {
		return ""
	}
	return max(end.AsTime().Sub(begin.AsTime()), 0).Round(100 * time.Millisecond).String()
}
