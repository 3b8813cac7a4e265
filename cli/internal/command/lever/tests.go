package lever

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"fairlead.dev/cli/internal/app"
	"fairlead.dev/cli/internal/hubclient"
	"fairlead.dev/cli/internal/resource"
	"fairlead.dev/cli/internal/table"
	"fairlead.dev/cli/internal/view"
	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/catalogyaml"
	"fairlead.dev/platform/flags"
)

const (
	// testsFailed is the exit code of tests that ran, and did not pass.
	testsFailed = 2
	// testPatience is how long --wait waits for tests.
	testPatience = 15 * time.Minute
)

func testCommand(a *app.App) *cobra.Command {
	t := testAsking{app: a}
	cmd := &cobra.Command{
		Use:   "test service NAME",
		Short: "Have a service's cluster run its integration tests",
		Long: `Run the integration tests of a service in its cluster: the Jobs and Pods that are marked as tests, and those of the folder
spec.tests.path. The agent begins as soon as it hears of the request and no other run of the service is going on. A newer
revision ends the run. docs/testing.md says how tests are written.

With --wait, progress goes to standard error, and the result to standard output. The exit code is 0 if all tests passed, 2 if
one did not, and 1 if the run could not be asked for, the service has no tests, or their end is not known within --timeout;
then the run goes on.`,
		Example: `  fairlead test service shop --wait
  fairlead test service shop --wait --timeout 30m --logs
  fairlead test results service shop -o junit > report.xml`,
		Args: app.WantArgs(2, 2),
	}
	cmd.Flags().BoolVar(&t.wait, "wait", false, "until the tests have ended")
	cmd.Flags().DurationVar(&t.timeout, "timeout", testPatience, "with --wait: how long at most")
	cmd.Flags().BoolVar(&t.logs, "logs", false, "with --wait: show what the tests wrote")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if k, err := resource.FindKind(args[0]); err != nil || k.ID != catalogyaml.Service {
			return app.UsageError(cmd)
		}
		return a.HubCommand(t.run)(cmd, args[1:])
	}
	cmd.AddCommand(testResults(a))
	return cmd
}

func testResults(a *app.App) *cobra.Command {
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
		Args: app.WantArgs(2, 2),
	}
	cmd.Flags().StringVarP(&format, "output", "o", app.FormatTable, "form of the output: table, json, yaml or junit")
	cmd.Flags().StringVar(&run, "run", "", "the run with this `id`; default: the latest")
	cmd.Flags().BoolVar(&logs, "logs", false, "show the end of what the tests wrote, too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if k, err := resource.FindKind(args[0]); err != nil || k.ID != catalogyaml.Service {
			return app.UsageError(cmd)
		}
		if known := []string{
			app.FormatTable, app.FormatJSON, app.FormatYAML, app.FormatJUnit,
		}; !slices.Contains(known, format) {
			return fmt.Errorf("unknown form of output %q: known are %s", format, strings.Join(known, ", "))
		}
		return a.HubCommand(func(ctx context.Context, h *hubclient.Hub, args []string) error {
			return showTests(ctx, a, h, args[0], run, format, logs)
		})(cmd, args[1:])
	}
	return cmd
}

// testAsking is an asking for tests.
type testAsking struct {
	app        *app.App
	wait, logs bool
	timeout    time.Duration
}

func (t *testAsking) run(ctx context.Context, h *hubclient.Hub, args []string) error {
	name := args[0]
	asked, err := h.Tests.RunTests(ctx, &consolev1.RunTestsRequest{Service: name})
	if err != nil {
		return err
	}
	id := asked.GetService().GetSpec().GetTestRequest().GetId()
	if !t.wait {
		return t.app.Printf("service/%s tests asked for: run %s. `fairlead test results service %s --run %s` shows how they went\n", name, id, name, id)
	}
	t.app.Notef("run %s of service %s is asked for\n", id, name)
	run, err := t.awaitRun(ctx, h, name, id)
	if err != nil {
		return err
	}
	if err := t.app.Printf("%s", view.View{Now: t.app.Now()}.TestRun(run, t.logs)); err != nil {
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
func (t *testAsking) awaitRun(ctx context.Context, h *hubclient.Hub, name, id string) (*deliveryv1.TestRun, error) {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	pause := time.NewTicker(app.WaitPause)
	defer pause.Stop()
	told := map[string]string{}
	tell := func(about, text string) {
		if told[about] != text {
			told[about] = text
			t.app.Notef("%s\n", table.CleanLine(about+" "+text))
		}
	}
	stands := "the agent has not told of it"
	for outage := t.app.NewOutage(); ; {
		run, err := readRun(ctx, h, name, id)
		switch {
		case err != nil && outage.WaitOut(ctx, err):
			continue
		case err != nil && ctx.Err() == nil:
			return nil, err
		case err == nil:
			outage.End()
		}
		for _, r := range run.GetResults() {
			if r.GetOutcome() != deliveryv1.TestOutcome_TEST_OUTCOME_UNSPECIFIED {
				tell(view.TestTitle(r), testProgress(r))
			}
		}
		if view.IsSet(run.GetEndTime()) {
			return run, nil
		}
		if run != nil {
			stands = "the tests are running"
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

// readRun returns a run, nil if its agent has not told of it yet. It is an error if nobody will tell of it any more.
func readRun(ctx context.Context, h *hubclient.Hub, name, id string) (*deliveryv1.TestRun, error) {
	got, err := h.Tests.GetTestRun(ctx, &consolev1.GetTestRunRequest{Service: name, Id: id})
	if connect.CodeOf(err) != connect.CodeNotFound {
		return got.GetRun(), err
	}
	now, err := h.Services.GetService(ctx, &consolev1.GetServiceRequest{Name: name})
	if err != nil {
		return nil, err
	}
	if other := now.GetService().GetSpec().GetTestRequest().GetId(); other != id {
		return nil, fmt.Errorf("service %q: run %s was replaced before its agent heard of it; asked for now is %s",
			name, id, cmp.Or(other, "none"))
	}
	return nil, nil //nolint:nilnil // neither a run nor an error
}

// testProgress is how far a test is.
func testProgress(r *deliveryv1.TestResult) string {
	text := view.TestOutcome(r.GetOutcome())
	if r.GetOutcome() == deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING && r.GetAttempts() > 1 {
		text += fmt.Sprintf(", attempt %d", r.GetAttempts())
	}
	if spent := view.FormatDuration(r.GetStartTime(), r.GetEndTime()); spent != "" {
		text += " after " + spent
	}
	if r.GetMessage() != "" && r.GetOutcome() != deliveryv1.TestOutcome_TEST_OUTCOME_PASSED {
		text += ": " + r.GetMessage()
	}
	return text
}

func showTests(ctx context.Context, a *app.App, h *hubclient.Hub, name, id, format string, logs bool) error {
	got, err := h.Tests.GetTestRun(ctx, &consolev1.GetTestRunRequest{Service: name, Id: id})
	if err != nil {
		return err
	}
	run := got.GetRun()
	switch format {
	case app.FormatJUnit:
		text, err := renderJUnit(name, run)
		if err != nil {
			return err
		}
		return a.Printf("%s", text)
	case app.FormatJSON, app.FormatYAML:
		return a.ShowPlain(format, run)
	}
	v := view.View{Now: a.Now()}
	if err := a.Printf("%s", v.TestRun(run, logs)); err != nil || id != "" {
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
	t := v.NewTable([]string{"EARLIER", "OUTCOME", "CAUSE", "COMMIT", "WHEN", "TOOK", "TESTS"})
	for _, r := range earlier {
		v.AddRow(t, []string{
			r.GetId(), view.TestOutcome(r.GetOutcome()), catalogyaml.Short(r.GetCause()), view.ShortHash(r.GetCommit()),
			v.AgoText(r.GetStartTime()), view.FormatDuration(r.GetStartTime(), r.GetEndTime()), view.TestCount(r),
		})
	}
	if err := a.Printf("\n"); err != nil {
		return err
	}
	return a.WriteTable(t)
}
