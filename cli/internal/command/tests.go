package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/hub"
	"fairlead.dev/cli/internal/table"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/flags"
	"fairlead.dev/platform/manifest"
)

const (
	// testsFailed is the exit code of tests that ran, and did not pass.
	testsFailed = 2
	// testPatience is how long --wait waits for tests.
	testPatience = 15 * time.Minute
	formatJUnit  = "junit"
)

func (a *app) testCommand() *cobra.Command {
	t := testAsking{app: a}
	cmd := &cobra.Command{
		Use:   "test service NAME",
		Short: "Have a service's cluster run its integration tests",
		Long: `Have a service's cluster run its integration tests: the Jobs and Pods that are marked as tests, and those of the folder spec.tests.path. The
agent runs them as soon as it hears of it and no other run of the service is going on. A newer revision ends them. docs/testing.md says how tests are written.

With --wait, what happens is told on standard error, and the result on standard output. The exit code is 0 if all tests passed, 2 if one did not, and 1 if they could
not be asked for, there are none, or nothing is known of their end within --timeout; then they go on.`,
		Example: `  fairlead test service shop --wait
  fairlead test service shop --wait --timeout 30m --logs
  fairlead test results service shop -o junit > report.xml`,
		Args: wantArgs(2, 2),
	}
	cmd.Flags().BoolVar(&t.wait, "wait", false, "until the tests have ended")
	cmd.Flags().DurationVar(&t.timeout, "timeout", testPatience, "with --wait: how long at most")
	cmd.Flags().BoolVar(&t.logs, "logs", false, "with --wait: show what the tests wrote")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if k, err := findKind(args[0]); err != nil || k.kind != manifest.Service {
			return usageError(cmd)
		}
		return a.hubCommand(t.run)(cmd, args[1:])
	}
	cmd.AddCommand(a.testResults())
	return cmd
}

func (a *app) testResults() *cobra.Command {
	var format, run string
	var logs bool
	cmd := &cobra.Command{
		Use:   "results service NAME",
		Short: "Show how the tests of a service went",
		Long: `Show how the tests of a service went: the latest run, or the one of --run, test by test, with the cases that failed where tests
write JUnit reports. The hub keeps the last 20 runs of a service. -o junit is for CI systems, with the end of what each test wrote.`,
		Example: `  fairlead test results service shop
  fairlead test results service shop --run asked-1f6d2a90c3b4e587 --logs
  fairlead test results service shop -o junit > report.xml`,
		Args: wantArgs(2, 2),
	}
	cmd.Flags().StringVarP(&format, "output", "o", formatTable, "form of the output: table, json, yaml or junit")
	cmd.Flags().StringVar(&run, "run", "", "the run with this `id`; default: the latest")
	cmd.Flags().BoolVar(&logs, "logs", false, "show the end of what the tests wrote, too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if k, err := findKind(args[0]); err != nil || k.kind != manifest.Service {
			return usageError(cmd)
		}
		if known := []string{formatTable, formatJSON, formatYAML, formatJUnit}; !slices.Contains(known, format) {
			return fmt.Errorf("unknown form of output %q: known are %s", format, strings.Join(known, ", "))
		}
		return a.hubCommand(func(ctx context.Context, h *hub.Hub, args []string) error {
			return a.showTests(ctx, h, args[0], run, format, logs)
		})(cmd, args[1:])
	}
	return cmd
}

// testAsking is an asking for tests.
type testAsking struct {
	app        *app
	wait, logs bool
	timeout    time.Duration
}

func (t *testAsking) run(ctx context.Context, h *hub.Hub, args []string) error {
	name := args[0]
	asked, err := h.Tests.RunTests(ctx, &consolev1.RunTestsRequest{Service: name})
	if err != nil {
		return err
	}
	id := asked.GetService().GetSpec().GetTestRequest().GetId()
	if !t.wait {
		return t.app.printf("service/%s tests asked for: run %s. `fairlead test results service %s --run %s` shows how they went\n", name, id, name, id)
	}
	t.app.notef("run %s of service %s is asked for\n", id, name)
	run, err := t.awaitRun(ctx, h, name, id)
	if err != nil {
		return err
	}
	if err := t.app.printf("%s", view{now: t.app.Now()}.testRun(run, t.logs)); err != nil {
		return err
	}
	switch run.GetOutcome() {
	case deliveryv1.TestOutcome_TEST_OUTCOME_PASSED:
		return nil
	case deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED:
		return fmt.Errorf("service %q has no tests that could run", name)
	}
	return flags.Exit(testsFailed)
}

// awaitRun waits for the end of a run, and tells what happens in between.
func (t *testAsking) awaitRun(ctx context.Context, h *hub.Hub, name, id string) (*deliveryv1.TestRun, error) {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	pause := time.NewTicker(waitPause)
	defer pause.Stop()
	told := map[string]string{}
	tell := func(about, text string) {
		if told[about] != text {
			told[about] = text
			t.app.notef("%s\n", strings.TrimSpace(table.CleanLine(about+" "+text)))
		}
	}
	stands := "the agent has not told of it"
	for {
		got, err := h.Tests.GetTestRun(ctx, &consolev1.GetTestRunRequest{Service: name, Id: id})
		switch code := connect.CodeOf(err); {
		case err == nil:
			run := got.GetRun()
			for _, r := range run.GetResults() {
				if r.GetOutcome() != deliveryv1.TestOutcome_TEST_OUTCOME_UNSPECIFIED {
					tell(testTitle(r), testProgress(r))
				}
			}
			if isSet(run.GetEndTime()) {
				return run, nil
			}
			stands = "the tests are running"
		case ctx.Err() != nil:
		case code == connect.CodeNotFound:
			if err := t.stillAsked(ctx, h, name, id); err != nil {
				return nil, err
			}
		case code == connect.CodeUnavailable || code == connect.CodeDeadlineExceeded:
			tell("", err.Error()) // the console may come back
		default:
			return nil, err
		}
		select {
		case <-ctx.Done():
			if err := caller.Err(); err != nil {
				return nil, fmt.Errorf("run %s goes on: %w", id, err)
			}
			return nil, fmt.Errorf("service %q: %s after %s; run %s goes on: `fairlead test results service %s --run %s` shows it", name, stands, t.timeout, id, name, id)
		case <-pause.C:
		}
	}
}

// stillAsked is an error if nobody will tell of a run any more.
func (t *testAsking) stillAsked(ctx context.Context, h *hub.Hub, name, id string) error {
	now, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: name})
	if err != nil {
		if ctx.Err() != nil || connect.CodeOf(err) == connect.CodeUnavailable {
			return nil //nolint:nilerr // it may come back, or the caller says that the time is over
		}
		return err
	}
	if other := now.GetService().GetSpec().GetTestRequest().GetId(); other != id {
		return fmt.Errorf("service %q: run %s was replaced before its agent heard of it; asked for now is %s", name, id, cmp.Or(other, "none"))
	}
	return nil
}

// testProgress is how far a test is.
func testProgress(r *deliveryv1.TestResult) string {
	text := testOutcome(r.GetOutcome())
	if r.GetOutcome() == deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING && r.GetAttempts() > 1 {
		text += fmt.Sprintf(", attempt %d", r.GetAttempts())
	}
	if spent := formatDuration(r.GetStartTime(), r.GetEndTime()); spent != "" {
		text += " after " + spent
	}
	if r.GetMessage() != "" && r.GetOutcome() != deliveryv1.TestOutcome_TEST_OUTCOME_PASSED {
		text += ": " + r.GetMessage()
	}
	return text
}

func (a *app) showTests(ctx context.Context, h *hub.Hub, name, id, format string, logs bool) error {
	got, err := h.Tests.GetTestRun(ctx, &consolev1.GetTestRunRequest{Service: name, Id: id})
	if err != nil {
		return err
	}
	run := got.GetRun()
	switch format {
	case formatJUnit:
		text, err := renderJUnit(name, run)
		if err != nil {
			return err
		}
		return a.printf("%s", text)
	case formatJSON, formatYAML:
		return a.showPlain(format, run)
	}
	v := view{now: a.Now()}
	if err := a.printf("%s", v.testRun(run, logs)); err != nil || id != "" {
		return err
	}
	all, err := h.Tests.ListTestRuns(ctx, &consolev1.ListTestRunsRequest{Service: name})
	if err != nil {
		return err
	}
	earlier := slices.DeleteFunc(all.GetRuns(), func(r *deliveryv1.TestRun) bool { return r.GetId() == run.GetId() })
	if len(earlier) == 0 {
		return nil
	}
	t := v.newTable([]string{"EARLIER", "OUTCOME", "CAUSE", "COMMIT", "WHEN", "TOOK", "TESTS"})
	for _, r := range earlier {
		v.addRow(t, []string{
			r.GetId(), testOutcome(r.GetOutcome()), manifest.Short(r.GetCause()), shortHash(r.GetCommit()),
			v.agoText(r.GetStartTime()), formatDuration(r.GetStartTime(), r.GetEndTime()), testCount(r),
		})
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	return a.writeTable(t)
}

// testRun is a run for people.
func (v view) testRun(run *deliveryv1.TestRun, logs bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s %s", run.GetId(), testOutcome(run.GetOutcome()))
	if took := formatDuration(run.GetStartTime(), run.GetEndTime()); took != "" {
		fmt.Fprintf(&b, " after %s", took)
	}
	for _, part := range []string{v.agoText(run.GetStartTime()), testCause(run.GetCause())} {
		if part != "" {
			b.WriteString(", " + part)
		}
	}
	if run.GetCommit() != "" {
		b.WriteString(", commit " + shortHash(run.GetCommit()))
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
		t.AddRow(testTitle(r), testOutcome(r.GetOutcome()), formatDuration(r.GetStartTime(), r.GetEndTime()), fmt.Sprint(r.GetAttempts()), caseCount(r), r.GetMessage())
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
		if !wentWrong(c.GetOutcome()) {
			continue
		}
		if listed++; listed == 1 {
			fmt.Fprintf(b, "\n%s:\n", table.CleanLine(testTitle(r)))
		}
		line := testOutcome(c.GetOutcome()) + " "
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
	fmt.Fprintf(b, "\n--- log of %s%s\n", table.CleanLine(testTitle(r)), cut)
	for line := range strings.Lines(r.GetLog()) {
		b.WriteString(table.CleanLine(line) + "\n")
	}
}

// testTitle is like shop/smoke (Job).
func testTitle(r *deliveryv1.TestResult) string {
	return fmt.Sprintf("%s (%s)", strings.TrimPrefix(r.GetNamespace()+"/"+r.GetName(), "/"), r.GetKind())
}

// testOutcome is like "timed out".
func testOutcome(o deliveryv1.TestOutcome) string {
	if o == deliveryv1.TestOutcome_TEST_OUTCOME_UNSPECIFIED {
		return "waiting"
	}
	return strings.ReplaceAll(manifest.Short(o), "-", " ")
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

// wentWrong says whether what ended so counts as failed.
func wentWrong(o deliveryv1.TestOutcome) bool {
	switch o {
	case deliveryv1.TestOutcome_TEST_OUTCOME_FAILED, deliveryv1.TestOutcome_TEST_OUTCOME_TIMED_OUT,
		deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED, deliveryv1.TestOutcome_TEST_OUTCOME_ERROR:
		return true
	}
	return false
}

// testCount is how many tests of a run passed, like "2 of 3".
func testCount(run *deliveryv1.TestRun) string {
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

// summarizeTests returns the latest run of a service's tests in few words, like "failed, 1 of 3 passed"; empty: there was none.
func summarizeTests(t *deliveryv1.TestSummary) string {
	if t.GetId() == "" {
		return ""
	}
	text := testOutcome(t.GetOutcome())
	if all := t.GetPassed() + t.GetFailed(); all > 0 {
		text += fmt.Sprintf(" %d/%d", t.GetPassed(), all)
	}
	return text
}

// formatDuration returns how long something took; empty if its end is not known.
func formatDuration(begin, end *timestamppb.Timestamp) string {
	if !isSet(begin) || !isSet(end) {
		return ""
	}
	return max(end.AsTime().Sub(begin.AsTime()), 0).Round(100 * time.Millisecond).String()
}
