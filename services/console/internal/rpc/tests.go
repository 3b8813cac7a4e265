package rpc

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/call"
	"fairlead.dev/services/console/internal/descriptor"
	"fairlead.dev/services/console/internal/intake"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
)

// Bounds of what is kept of one run, whatever the agent sends. More is cut, and the result says so: half a run is
// better than none.
const (
	maxTestLogs  = 256 << 10
	maxTestCases = 2 << 20
)

type tests struct{ Deps }

func (s *tests) RunTests(ctx context.Context, req *consolev1.RunTestsRequest) (*consolev1.RunTestsResponse, error) {
	id := req.GetId()
	if id == "" {
		random := make([]byte, 8)
		_, _ = rand.Read(random) // never fails
		id = fmt.Sprintf("asked-%x", random)
	}
	service, err := s.Catalog.RunTests(ctx, call.By(ctx), req.GetService(), id)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	out := encodeService(service)
	if out.GetSpec().GetTestRequest().GetId() != id { // which another asking has replaced
		out.Spec.TestRequest = &deliveryv1.TestRequest{Id: id}
	}
	return &consolev1.RunTestsResponse{Service: out}, nil
}

func (s *tests) ListTestRuns(ctx context.Context, req *consolev1.ListTestRunsRequest) (*consolev1.ListTestRunsResponse, error) {
	_, runs, err := s.Catalog.TestRuns(ctx, req.GetService(), "", store.KeptTestRuns)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	if after := req.GetPageToken(); after != "" {
		at := slices.IndexFunc(runs, func(r store.TestRun) bool { return r.ID == after })
		if at < 0 {
			return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("page_token: is not one that a list returned, or that run is not kept any more: begin again"))
		}
		runs = runs[at+1:]
	}
	out := &consolev1.ListTestRunsResponse{}
	if size := int(req.GetPageSize()); size > 0 && size < len(runs) {
		runs = runs[:size]
		out.NextPageToken = runs[size-1].ID
	}
	for _, r := range runs {
		run, err := unpackTestRun(r)
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		for _, result := range run.GetResults() {
			result.Log = ""
		}
		out.Runs = append(out.Runs, run)
	}
	return out, nil
}

func (s *tests) GetTestRun(ctx context.Context, req *consolev1.GetTestRunRequest) (*consolev1.GetTestRunResponse, error) {
	service, runs, err := s.Catalog.TestRuns(ctx, req.GetService(), req.GetId(), 1)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	if len(runs) == 0 {
		return nil, noTestRun(encodeService(service), req.GetId())
	}
	run, err := unpackTestRun(runs[0])
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &consolev1.GetTestRunResponse{Run: run}, nil
}

// noTestRun says why a run is not there.
func noTestRun(s *consolev1.Service, id string) error {
	name, asked := s.GetMetadata().GetName(), s.GetSpec().GetTestRequest().GetId()
	switch {
	case asked != "" && (id == "" || id == asked):
		return connect.NewError(connect.CodeNotFound, fmt.Errorf("the agent of cluster %q has not told of run %q of service %q yet: `fairlead trace service %s` says whether it is heard of",
			s.GetSpec().GetCluster(), asked, name, name))
	case id == "":
		return connect.NewError(connect.CodeNotFound, fmt.Errorf("the tests of service %q have not run yet: `fairlead test service %s` asks for it", name, name))
	}
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("service %q has no run %q of its tests: the last %d are kept, and `fairlead test results service %s` lists them", name, id, store.KeptTestRuns, name))
}

func unpackTestRun(r store.TestRun) (*deliveryv1.TestRun, error) {
	detail, err := unpack(r.Data)
	return detail.GetTestRun(), err
}

// recordTestRun keeps what a cluster says of a run.
func (s *objects) recordTestRun(ctx context.Context, cluster string, detail *deliveryv1.ServiceDetail) error {
	run := detail.GetTestRun()
	seen := descriptor.Moment(detail.GetObservedTime())
	_, kept, err := s.Catalog.TestRuns(ctx, detail.GetService(), run.GetId(), 1)
	switch {
	case refusal.Is(err, refusal.NotFound): // RecordTestRun passes it over
	case err != nil:
		return err
	case len(kept) > 0:
		before, err := unpackTestRun(kept[0])
		if err != nil {
			return err
		}
		if completeTestRun(run, before) && kept[0].Time.After(seen) {
			seen = kept[0].Time
		}
	}
	boundTestRun(run)
	data, err := pack(detail)
	if err != nil {
		return err
	}
	out := intake.TestRun{
		TestSummary: *decodeTestSummary(summaryOf(run)), Commit: run.GetCommit(), Message: run.GetMessage(), Time: seen, Data: data,
	}
	for _, r := range run.GetResults() {
		if bad(r.GetOutcome()) {
			out.Failing = append(out.Failing, r.GetNamespace()+"/"+r.GetName())
		}
	}
	return s.Intake.RecordTestRun(ctx, cluster, detail.GetService(), out)
}

// completeTestRun fills logs and cases that the agent does not have any more in from what was kept of the run before.
// The result tells whether the run replaces one whose end is known only in part: an agent that leads again may hand
// over all of it, though it saw it earlier.
func completeTestRun(run, before *deliveryv1.TestRun) (replaces bool) {
	if !run.GetPartial() {
		return before.GetPartial() && run.GetEndTime() != nil
	}
	lacks := false
	for _, r := range run.GetResults() {
		if r.GetLog() != "" || len(r.GetCases()) > 0 || r.GetEndTime() == nil || r.GetAttempts() == 0 {
			continue
		}
		at := slices.IndexFunc(before.GetResults(), func(b *deliveryv1.TestResult) bool {
			return b.GetKind() == r.GetKind() && b.GetNamespace() == r.GetNamespace() && b.GetName() == r.GetName() && b.GetAttempts() == r.GetAttempts() && b.GetEndTime() != nil
		})
		if at < 0 {
			lacks = true
			continue
		}
		b := before.GetResults()[at]
		r.Log, r.LogCut, r.Cases = b.GetLog(), b.GetLogCut(), b.GetCases()
		r.CasesPassed, r.CasesFailed, r.CasesSkipped = b.GetCasesPassed(), b.GetCasesFailed(), b.GetCasesSkipped()
		lacks = lacks || before.GetPartial() && r.GetLog() == "" && len(r.GetCases()) == 0
	}
	run.Partial = lacks
	return false
}

// bad says whether a test that ended so counts as failed.
func bad(o deliveryv1.TestOutcome) bool {
	switch o {
	case deliveryv1.TestOutcome_TEST_OUTCOME_FAILED, deliveryv1.TestOutcome_TEST_OUTCOME_TIMED_OUT, deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED,
		deliveryv1.TestOutcome_TEST_OUTCOME_ERROR:
		return true
	}
	return false
}

// boundTestRun cuts the beginnings of logs, and the last cases, which passed.
func boundTestRun(run *deliveryv1.TestRun) {
	logs, cases := maxTestLogs, maxTestCases
	for _, r := range run.GetResults() {
		if len(r.GetLog()) > logs {
			r.Log, r.LogCut = tail(r.GetLog(), logs), true
		}
		logs -= len(r.GetLog())
		for i, c := range r.GetCases() {
			if cases -= proto.Size(c); cases < 0 {
				r.Cases = r.Cases[:i]
				break
			}
		}
	}
}

// tail is as much of the end of a text as that, from the beginning of a character.
func tail(text string, most int) string {
	text = text[len(text)-most:]
	for text != "" && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}

func summaryOf(run *deliveryv1.TestRun) *deliveryv1.TestSummary {
	out := &deliveryv1.TestSummary{
		Id: run.GetId(), Cause: run.GetCause(), Outcome: run.GetOutcome(), Digest: run.GetDigest(), StartTime: run.GetStartTime(), EndTime: run.GetEndTime(),
	}
	for _, r := range run.GetResults() {
		switch {
		case r.GetOutcome() == deliveryv1.TestOutcome_TEST_OUTCOME_PASSED:
			out.Passed++
		case bad(r.GetOutcome()):
			out.Failed++
		}
	}
	return out
}

var testCauses = map[deliveryv1.TestCause]state.TestCause{ //nolint:gochecknoglobals // a constant
	deliveryv1.TestCause_TEST_CAUSE_REQUEST: state.TestsRequested, deliveryv1.TestCause_TEST_CAUSE_REVISION: state.TestsOfRevision,
	deliveryv1.TestCause_TEST_CAUSE_SCHEDULE: state.TestsScheduled,
}

var testOutcomes = map[deliveryv1.TestOutcome]state.TestOutcome{ //nolint:gochecknoglobals // a constant
	deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING: state.TestsRunning, deliveryv1.TestOutcome_TEST_OUTCOME_PASSED: state.TestsPassed,
	deliveryv1.TestOutcome_TEST_OUTCOME_FAILED: state.TestsFailed, deliveryv1.TestOutcome_TEST_OUTCOME_TIMED_OUT: state.TestsTimedOut,
	deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED: state.TestsAborted, deliveryv1.TestOutcome_TEST_OUTCOME_ERROR: state.TestsError,
	deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED: state.TestsSkipped,
}

func decodeTestSummary(t *deliveryv1.TestSummary) *state.TestSummary {
	if t == nil {
		return nil
	}
	return &state.TestSummary{
		ID: t.GetId(), Cause: testCauses[t.GetCause()], Outcome: testOutcomes[t.GetOutcome()], Digest: t.GetDigest(), Passed: t.GetPassed(), Failed: t.GetFailed(),
		StartTime: descriptor.Moment(t.GetStartTime()), EndTime: descriptor.Moment(t.GetEndTime()),
	}
}

func encodeTestSummary(t *state.TestSummary) *deliveryv1.TestSummary {
	if t == nil {
		return nil
	}
	out := &deliveryv1.TestSummary{
		Id: t.ID, Digest: t.Digest, Passed: t.Passed, Failed: t.Failed, StartTime: descriptor.Stamp(t.StartTime), EndTime: descriptor.Stamp(t.EndTime),
	}
	for wire, is := range testCauses {
		if is == t.Cause {
			out.Cause = wire
		}
	}
	for wire, is := range testOutcomes {
		if is == t.Outcome {
			out.Outcome = wire
		}
	}
	return out
}
