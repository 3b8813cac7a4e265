package lever

import (
	"encoding/xml"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"fairlead.dev/cli/internal/view"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// The parts of a JUnit report that CI systems read. Characters that XML has no form for are replaced.
type (
	junitReport struct {
		XMLName xml.Name `xml:"testsuites"`
		Name    string   `xml:"name,attr"`
		junitCounts
		Suites []junitSuite `xml:"testsuite"`
	}
	junitCounts struct {
		Tests    int    `xml:"tests,attr"`
		Failures int    `xml:"failures,attr"`
		Errors   int    `xml:"errors,attr"`
		Skipped  int    `xml:"skipped,attr"`
		Time     string `xml:"time,attr"`
	}
	junitSuite struct {
		Name string `xml:"name,attr"`
		junitCounts
		Timestamp string      `xml:"timestamp,attr,omitempty"`
		Cases     []junitCase `xml:"testcase"`
		Log       string      `xml:"system-out,omitempty"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitMessage `xml:"failure"`
		Error   *junitMessage `xml:"error"`
		Skipped *struct{}     `xml:"skipped"`
	}
	junitMessage struct {
		Message string `xml:"message,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// renderJUnit renders a run as a JUnit report: a suite for each test, with its cases, or else with itself as the one
// case.
func renderJUnit(service string, run *deliveryv1.TestRun) (string, error) {
	out := junitReport{Name: service, junitCounts: junitCounts{Time: formatSeconds(run.GetStartTime(), run.GetEndTime())}}
	for _, r := range run.GetResults() {
		suite := junitSuiteOf(r)
		out.Tests += suite.Tests
		out.Failures += suite.Failures
		out.Errors += suite.Errors
		out.Skipped += suite.Skipped
		out.Suites = append(out.Suites, suite)
	}
	if len(out.Suites) == 0 && view.WentWrong(run.GetOutcome()) { // nothing of it ran, which must not look green
		one := junitCase{Class: service, Name: "tests", Time: "0"}
		one.setOutcome(run.GetOutcome(), run.GetMessage())
		suite := junitSuite{Name: service}
		suite.addCase(one)
		out.Tests, out.Failures, out.Errors = suite.Tests, suite.Failures, suite.Errors
		suite.Time = "0"
		out.Suites = append(out.Suites, suite)
	}
	text, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write as JUnit: %w", err)
	}
	return xml.Header + string(text) + "\n", nil
}

func junitSuiteOf(r *deliveryv1.TestResult) junitSuite {
	title := strings.TrimPrefix(r.GetNamespace()+"/"+r.GetName(), "/")
	suite := junitSuite{Name: title, Log: r.GetLog()}
	suite.Time = formatSeconds(r.GetStartTime(), r.GetEndTime())
	if view.IsSet(r.GetStartTime()) {
		suite.Timestamp = r.GetStartTime().AsTime().Format("2006-01-02T15:04:05")
	}
	failing := false
	for _, c := range r.GetCases() {
		one := junitCase{
			Class: c.GetClass(), Name: c.GetName(), Time: fmt.Sprintf("%.3f", c.GetDuration().AsDuration().Seconds()),
		}
		one.setOutcome(c.GetOutcome(), c.GetMessage())
		failing = failing || view.WentWrong(c.GetOutcome())
		suite.addCase(one)
	}
	if len(r.GetCases()) == 0 || !failing && r.GetOutcome() != deliveryv1.TestOutcome_TEST_OUTCOME_PASSED { // the run failed besides its cases
		one := junitCase{Class: r.GetKind(), Name: title, Time: suite.Time}
		one.setOutcome(r.GetOutcome(), r.GetMessage())
		suite.addCase(one)
	}
	return suite
}

func (s *junitSuite) addCase(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

// setOutcome says how a case ended. A case that has not ended is skipped: a report of half a run is no failure.
func (c *junitCase) setOutcome(o deliveryv1.TestOutcome, message string) {
	said := &junitMessage{Message: strings.TrimSpace(view.TestOutcome(o)), Text: message}
	switch o {
	case deliveryv1.TestOutcome_TEST_OUTCOME_PASSED:
	case deliveryv1.TestOutcome_TEST_OUTCOME_FAILED:
		c.Failure = said
	case deliveryv1.TestOutcome_TEST_OUTCOME_TIMED_OUT, deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED,
		deliveryv1.TestOutcome_TEST_OUTCOME_ERROR:
		c.Error = said
	default:
		c.Skipped = &struct{}{}
	}
}

func formatSeconds(begin, end *timestamppb.Timestamp) string {
	if !view.IsSet(begin) || !view.IsSet(end) {
		return "0"
	}
	return fmt.Sprintf("%.3f", max(end.AsTime().Sub(begin.AsTime()), 0).Seconds())
}
