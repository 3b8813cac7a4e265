package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
)

const (
	passed   = deliveryv1.TestOutcome_TEST_OUTCOME_PASSED
	failed   = deliveryv1.TestOutcome_TEST_OUTCOME_FAILED
	underway = deliveryv1.TestOutcome_TEST_OUTCOME_RUNNING
	aborted  = deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED
)

func (r *running) tests(t testing.TB, token string) consolev1connect.TestServiceClient {
	t.Helper()
	return consolev1connect.NewTestServiceClient(newHTTPClient(t), r.url,
		append(client.Options(), client.WithToken(r.sending(token)))...)
}

func runTests(t testing.TB, c consolev1connect.TestServiceClient, service, id string) *consolev1.Service {
	t.Helper()
	out, err := c.RunTests(t.Context(), &consolev1.RunTestsRequest{Service: service, Id: id})
	if err != nil {
		t.Fatal(err)
	}
	return out.GetService()
}

// tell has a cluster tell of a run that began some minutes ago, with one test of each outcome.
func (p *past) tell(t *testing.T, cluster, id, digest string, ago int, outcome deliveryv1.TestOutcome,
	tests ...deliveryv1.TestOutcome,
) *deliveryv1.TestRun {
	t.Helper()
	began := time.Now().Add(-time.Duration(ago) * time.Minute).Truncate(time.Second)
	run := &deliveryv1.TestRun{
		Id: id, Cause: deliveryv1.TestCause_TEST_CAUSE_REQUEST, Digest: digest, Commit: commitA, Outcome: outcome,
		StartTime: timestamppb.New(began),
	}
	if outcome != underway {
		run.EndTime = timestamppb.New(began.Add(20 * time.Second))
	}
	for i, o := range tests {
		run.Results = append(run.Results, &deliveryv1.TestResult{
			Kind: "Job", Namespace: "shop", Name: fmt.Sprintf("t%d", i), Outcome: o, Attempts: 1, Log: "line\n",
		})
	}
	p.hand(t, cluster, run)
	return run
}

// hand hands a run over.
func (p *past) hand(t *testing.T, cluster string, run *deliveryv1.TestRun) {
	t.Helper()
	c := p.syncing(t, p.distributorToken(t))
	_, err := c.objects.RecordDetails(t.Context(), &consolev1.RecordDetailsRequest{
		Cluster: cluster, Detail: &deliveryv1.ServiceDetail{
			Service: p.service, Digest: run.GetDigest(), ObservedTime: timestamppb.Now(),
			Detail: &deliveryv1.ServiceDetail_TestRun{TestRun: run},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTestsAreAskedForOnceAndByRunTestsOnly(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		tests := r.tests(t, r.adminToken(t))
		_, err := tests.RunTests(t.Context(), &consolev1.RunTestsRequest{Service: "none"})
		wantCode(t, err, connect.CodeNotFound, "none")
		sees := func(agent *deliveryv1.AgentInfo) {
			t.Helper()
			c := p.syncing(t, p.distributorToken(t))
			if _, err := c.status.RecordSeen(t.Context(), &consolev1.RecordSeenRequest{
				Clusters: []*consolev1.ClusterSeen{{Cluster: "edge-1", Time: timestamppb.Now(), Agent: agent}},
			}); err != nil {
				t.Fatal(err)
			}
		}
		_, err = tests.RunTests(t.Context(), &consolev1.RunTestsRequest{Service: "web", Id: "No Name"})
		wantCode(t, err, connect.CodeInvalidArgument, "id")
		_, err = tests.RunTests(t.Context(), &consolev1.RunTestsRequest{Service: "web"})
		wantCode(t, err, connect.CodeFailedPrecondition, "nothing applied", "fairlead trace service web")
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)

		// An older agent would take it for a new revision.
		sees(&deliveryv1.AgentInfo{Version: "v0.9.0"})
		_, err = tests.RunTests(t.Context(), &consolev1.RunTestsRequest{Service: "web", Id: "one"})
		wantCode(t, err, connect.CodeFailedPrecondition,
			`the agent of cluster "edge-1", version v0.9.0, can't run tests`)
		sees(&deliveryv1.AgentInfo{
			Version:      "v1.0.0",
			Capabilities: []deliveryv1.AgentCapability{99, deliveryv1.AgentCapability_AGENT_CAPABILITY_TESTS},
		})

		first := runTests(t, tests, "web", "one")
		asked := first.GetSpec().GetTestRequest()
		if asked.GetId() != "one" || asked.GetAuthor() != "user:ada" ||
			time.Since(asked.GetTime().AsTime()).Abs() > time.Minute {
			t.Errorf("asked: %v", asked)
		}
		if again := runTests(t, tests, "web", "one"); !proto.Equal(again.GetMetadata(), first.GetMetadata()) {
			t.Errorf("asked again: %v, was %v", again.GetMetadata(), first.GetMetadata())
		}
		// Other writes leave the test request as it is.
		given := p.admin.service(t, "web")
		given.Metadata.Etag = ""
		for _, forged := range []*deliveryv1.TestRequest{nil, {Id: "forged"}} {
			given.Spec.TestRequest = forged
			given.Spec.Namespace += "x"
			out, err := p.admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{Service: given})
			if err != nil || !proto.Equal(out.GetService().GetSpec().GetTestRequest(), asked) {
				t.Errorf("after a write with %v: %v, %v", forged, out.GetService().GetSpec(), err)
			}
		}
		unchanged, err := p.admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{Service: given})
		if err != nil || unchanged.GetOutcome() != consolev1.Outcome_OUTCOME_UNCHANGED {
			t.Errorf("what was exported, applied again: %v, %v", unchanged.GetOutcome(), err)
		}
		second := runTests(t, tests, "web", "")
		if id := second.GetSpec().GetTestRequest().GetId(); id == "" || id == "one" {
			t.Errorf("a run without a name is %q", id)
		}
		// A run that was asked for before and is over is not asked for again.
		p.tell(t, "edge-1", "one", "d1", 1, passed, passed)
		if again := runTests(t, tests, "web",
			"one"); again.GetMetadata().GetRevision() != second.GetMetadata().GetRevision() {
			t.Errorf("a run that is over was asked for again: %v", again)
		}
		if got := p.get(t).GetTestRequest(); !proto.Equal(got, second.GetSpec().GetTestRequest()) {
			t.Errorf("asked for is %v", got)
		}
		if _, err := p.admin.levers.HoldService(t.Context(), &consolev1.HoldServiceRequest{
			Name: "web", Mode: deliveryv1.SyncMode_SYNC_MODE_SUSPEND, Reason: "x",
		}); err != nil {
			t.Fatal(err)
		}
		_, err = tests.RunTests(t.Context(), &consolev1.RunTestsRequest{Service: "web"})
		wantCode(t, err, connect.CodeFailedPrecondition, "suspended", "fairlead resume service web")
		// Another cluster was not asked.
		p.admin.putCluster(t, "edge-2")
		moved := p.admin.service(t, "web")
		moved.Spec.Cluster = "edge-2"
		out, err := p.admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{Service: moved})
		if err != nil || out.GetService().GetSpec().GetTestRequest() != nil {
			t.Errorf("moved: %v, %v", out.GetService().GetSpec(), err)
		}
	})
}

func TestTestsAreForThoseWhoMayDeploy(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	p := newPast(t, r)
	p.push(t, commitA)
	p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
	_, err := p.admin.roles.UpdateRole(t.Context(), &consolev1.UpdateRoleRequest{
		AllowMissing: true, Role: &consolev1.Role{
			Metadata: meta("release"),
			Spec: &consolev1.RoleSpec{
				Rules: []*consolev1.RoleRule{{Verbs: []string{"view", "deploy"}, Kinds: []string{"Service"}}},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.admin.let(t, "readers", "viewer", everywhere())
	p.admin.let(t, "releasers", "release", everywhere())
	as := func(name string, groups ...string) consolev1connect.TestServiceClient {
		return r.tests(t, r.sign(t, identity.Identity{Kind: identity.KindUser, Name: name, Groups: groups}))
	}
	_, err = as("eve").RunTests(t.Context(), &consolev1.RunTestsRequest{Service: "web"})
	wantCode(t, err, connect.CodeNotFound, "web")
	reader := as("rob", "readers")
	_, err = reader.RunTests(t.Context(), &consolev1.RunTestsRequest{Service: "web", Id: "a"})
	wantCode(t, err, connect.CodePermissionDenied, `may not deploy service "web"`)
	runTests(t, as("rae", "releasers"), "web", "a")
	_, err = reader.RunTests(t.Context(), &consolev1.RunTestsRequest{Service: "web", Id: "a"})
	wantCode(t, err, connect.CodePermissionDenied)
	p.tell(t, "edge-1", "a", "d1", 1, passed, passed)
	if got, err := reader.GetTestRun(t.Context(), &consolev1.GetTestRunRequest{Service: "web"}); err != nil ||
		got.GetRun().GetId() != "a" {
		t.Errorf("a viewer sees %v, %v", got, err)
	}
	_, err = as("eve").GetTestRun(t.Context(), &consolev1.GetTestRunRequest{Service: "web"})
	wantCode(t, err, connect.CodeNotFound, "web")
	if trail := p.admin.trail(t, "catalog.update", "web"); len(trail) != 1 || trail[0].GetActor().GetName() != "rae" ||
		!strings.Contains(trail[0].GetAfter(), `"testRequest"`) {
		t.Errorf("audit: %v", trail)
	}
}

func TestRunsOfTestsAreKeptListedAndTold(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		tests := r.tests(t, r.adminToken(t))
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		get := func(id string) (*deliveryv1.TestRun, error) {
			out, err := tests.GetTestRun(t.Context(), &consolev1.GetTestRunRequest{Service: "web", Id: id})
			return out.GetRun(), err
		}
		_, err := get("")
		wantCode(t, err, connect.CodeNotFound, "have not run yet", "fairlead test service web")
		runTests(t, tests, "web", "a")
		_, err = get("a")
		wantCode(t, err, connect.CodeNotFound, `cluster "edge-1" has not told of run "a"`)
		_, err = get("x")
		wantCode(t, err, connect.CodeNotFound, `no run "x"`)

		p.tell(t, "edge-1", "a", "d1", 9, underway, passed, underway)
		p.tell(t, "edge-2", "a", "d1", 9, passed, passed) // a stranger
		if run, err := get("a"); err != nil || run.GetOutcome() != underway || len(run.GetResults()) != 2 {
			t.Errorf("underway: %v, %v", run, err)
		}
		want := p.tell(t, "edge-1", "a", "d1", 9, failed, passed, failed, deliveryv1.TestOutcome_TEST_OUTCOME_ERROR,
			deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED)
		p.hand(t, "edge-1", want)                           // again
		p.tell(t, "edge-1", "a", "d1", 9, underway, passed) // late
		if run, err := get("a"); err != nil || !proto.Equal(run, want) {
			t.Errorf("got %v, %v\nwant %v", run, err, want)
		}
		p.tell(t, "edge-1", "b", "d1", 5, passed, passed, passed)
		p.tell(t, "edge-1", "c", "d1", 3, aborted, passed, aborted)
		list := func(size int32) (out []string) {
			t.Helper()
			for req := (&consolev1.ListTestRunsRequest{Service: "web", PageSize: size}); ; {
				page, err := tests.ListTestRuns(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				for _, run := range page.GetRuns() {
					out = append(out, run.GetId())
					for _, result := range run.GetResults() {
						if result.GetLog() != "" {
							t.Errorf("a list has the log of %s", run.GetId())
						}
					}
				}
				if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
					return out
				}
			}
		}
		for _, size := range []int32{0, 1, 2, 3} {
			if got := list(size); !slices.Equal(got, []string{"c", "b", "a"}) {
				t.Errorf("in pages of %d: %q", size, got)
			}
		}
		_, err = tests.ListTestRuns(t.Context(), &consolev1.ListTestRunsRequest{Service: "web", PageToken: "x"})
		wantCode(t, err, connect.CodeInvalidArgument, "page_token")

		told := listEvents(t, r.events(t, r.adminToken(t)), "type : tests_")
		if types(told) != "service.tests_failed service.tests_passed" {
			t.Fatalf("told: %v", told)
		}
		if e := told[0]; e.GetMessage() != "2 of 3 tests failed: shop/t1, shop/t2." ||
			e.GetSeverity() != consolev1.Severity_SEVERITY_ERROR || e.GetService() != "web" ||
			e.GetCluster() != "edge-1" || e.GetCommit() != commitA || e.GetDuration().AsDuration() != 20*time.Second {
			t.Errorf("told: %v", e)
		}
		if e := told[1]; e.GetMessage() != "All 2 tests passed." ||
			e.GetSeverity() != consolev1.Severity_SEVERITY_INFO {
			t.Errorf("told: %v", e)
		}
	})
}

// An asking is delivered under another digest, and begins nothing in the history.
func TestTestsStandWithTheirDeployment(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		p.push(t, commitA)
		p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
		applied := timestamppb.Now()
		asked := func(digest, content string) {
			t.Helper()
			p.record(t, &consolev1.RecordHubRequest{Services: []*consolev1.ServiceHub{{
				Service: p.service, Uid: p.uid, SourceUid: p.source.GetMetadata().GetUid(), Ref: "HEAD",
				Hub: &consolev1.HubTruth{Digest: digest, ContentDigest: content},
			}}})
			p.sequence++
			report(t, p.distributor, &deliveryv1.ServiceReport{
				Service: p.service, Sequence: p.sequence, Phase: deliveryv1.Phase_PHASE_HEALTHY, Digest: digest,
				Commit: p.head, AppliedDigest: digest, AppliedCommit: p.head,
				AppliedTime: applied, ObservedTime: timestamppb.Now(),
				Tests: &deliveryv1.TestSummary{Id: "x", Outcome: failed, Digest: content, Failed: 1},
			})
		}
		asked("d1+a", "d1")
		before := len(listEvents(t, r.events(t, r.adminToken(t)), "service = web"))
		asked("d1+b", "d1")
		asked("d1+c", "d1")
		if got := listEvents(t, r.events(t, r.adminToken(t)), "service = web"); len(got) != before {
			t.Errorf("an asking was told of: %q", types(got[before:]))
		}
		if got := p.list(t); !slices.Equal(got, []string{"1 d1+c spec healthy by user:ada"}) {
			t.Errorf("history: %q", got)
		}
		is := p.admin.service(t, "web").GetStatus()
		if is.GetHub().GetContentDigest() != "d1" || is.GetCluster().GetReport().GetTests().GetOutcome() != failed {
			t.Errorf("status: %v", is)
		}
		revision := runTests(t, r.tests(t, r.adminToken(t)), "web", "a").GetMetadata().GetRevision()
		asked("d1+d", "d1")
		p.tell(t, "edge-1", "a", "d1", 5, failed, passed, failed)
		if got, err := p.history.ListDeployments(t.Context(), &consolev1.ListDeploymentsRequest{Service: "web"}); err != nil || got.GetDeployments()[0].GetSpecRevision() != revision {
			t.Errorf("after revision %d of the spec: %v, %v", revision, got, err)
		}
		p.push(t, commitB)
		p.deliver(t, commitB, "d2", deliveryv1.Phase_PHASE_HEALTHY)
		p.tell(t, "edge-1", "late", "d1", 4, aborted, aborted)
		p.tell(t, "edge-1", "b", "d2", 3, passed, passed)
		out, err := p.history.ListDeployments(t.Context(), &consolev1.ListDeploymentsRequest{Service: "web"})
		if err != nil || len(out.GetDeployments()) != 2 {
			t.Fatal(out, err)
		}
		for i, want := range []string{"b TEST_OUTCOME_PASSED 1 0", "late TEST_OUTCOME_ABORTED 0 1"} {
			got := out.GetDeployments()[i].GetTests()
			if text := fmt.Sprint(got.GetId(), " ", got.GetOutcome(), " ", got.GetPassed(), " ",
				got.GetFailed()); text != want || got.GetStartTime() == nil || got.GetEndTime() == nil {
				t.Errorf("tests of deployment %d: %q, want %q", 2-i, text, want)
			}
		}
	})
}

func TestRunsOfTestsAreBounded(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	p := newPast(t, r)
	run := &deliveryv1.TestRun{Id: "big", Outcome: failed, StartTime: timestamppb.Now(), EndTime: timestamppb.Now()}
	for range 3 {
		result := &deliveryv1.TestResult{
			Kind: "Job", Name: "t", Outcome: failed, Log: strings.Repeat("ä", 100<<10) + "end", CasesPassed: 1000,
		}
		for range 600 {
			result.Cases = append(result.Cases, &deliveryv1.TestCase{Name: "c", Message: strings.Repeat("x", 1900)})
		}
		run.Results = append(run.Results, result)
	}
	p.hand(t, "edge-1", run)
	got, err := r.tests(t, r.adminToken(t)).GetTestRun(t.Context(), &consolev1.GetTestRunRequest{
		Service: "web", Id: "big",
	})
	if err != nil {
		t.Fatal(err)
	}
	logs := 0
	for i, result := range got.GetRun().GetResults() {
		logs += len(result.GetLog())
		if result.GetLogCut() != (i > 0) || result.GetLog() != "" && !strings.HasSuffix(result.GetLog(), "end") ||
			result.GetCasesPassed() != 1000 {
			t.Errorf("%d: %d bytes of log, cut %v, %d cases", i, len(result.GetLog()), result.GetLogCut(),
				len(result.GetCases()))
		}
	}
	if size := proto.Size(got); logs > 256<<10 || logs < 255<<10 || size > 3<<20 || size < 2<<20 {
		t.Errorf("%d bytes of logs in a run of %d bytes", logs, size)
	}
}

func TestTestsThatCanNotRunAreNamed(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	admin := r.admin(t)
	admin.putSource(t, "shop", "https://git.example.com/shop")
	admin.putCluster(t, "edge-1")
	put := func(spec *deliveryv1.TestSpec) (*consolev1.Service, error) {
		s := newService("web", "shop", "edge-1")
		s.Spec.Tests = spec
		out, err := admin.services.UpdateService(t.Context(), &consolev1.UpdateServiceRequest{
			AllowMissing: true, Service: s,
		})
		return out.GetService(), err
	}
	for words, spec := range map[string]*deliveryv1.TestSpec{
		"spec.tests.path":                      {Path: "../other"},
		"whole folder":                         {Path: "./"},
		"backslashes":                          {Path: `a\b`},
		"five fields":                          {Schedule: "hourly"},
		"schedule \"61 3 * * *\"":              {Schedule: "61 3 * * *"},
		`time zone "Mars/Base"`:                {Schedule: "0 3 * * *", TimeZone: "Mars/Base"},
		"goes with spec.tests.schedule":        {TimeZone: "Europe/Berlin"},
		`spec.tests.serviceAccount "A tester"`: {ServiceAccount: "A tester"},
		"retries":                              {Retries: 11},
	} {
		_, err := put(spec)
		wantCode(t, err, connect.CodeInvalidArgument, words)
	}
	full := &deliveryv1.TestSpec{
		Path: "./deploy/tests/", On: deliveryv1.TestTrigger_TEST_TRIGGER_REVISION, Schedule: "*/5 8-18 * * mon-fri",
		TimeZone: "Europe/Berlin", Retries: 2, ServiceAccount: "tester", Degrades: true,
	}
	got, err := put(full)
	full.Path = "deploy/tests"
	if err != nil || !proto.Equal(got.GetSpec().GetTests(), full) {
		t.Errorf("got %v, %v", got.GetSpec().GetTests(), err)
	}
}

// Services of global services and of folders are asked one by one, and what made them leaves that alone.
func TestServicesOfOthersAreAskedForTests(t *testing.T) {
	overBoth(t, func(t *testing.T, r *running) {
		p := newPast(t, r)
		tests := r.tests(t, r.adminToken(t))
		g := newGlobal("logs", nil)
		g.Spec.Clusters = &consolev1.ClusterSelector{Names: []string{"edge-1"}}
		g.Spec.Template.Tests = &deliveryv1.TestSpec{Path: "tests", Schedule: "bad"}
		_, err := p.admin.globals.UpdateGlobalService(t.Context(), &consolev1.UpdateGlobalServiceRequest{
			AllowMissing: true, GlobalService: g,
		})
		wantCode(t, err, connect.CodeInvalidArgument, "spec.template.tests", "five fields")
		g.Spec.Template.Tests.Schedule, g.Spec.Template.TestRequest = "", &deliveryv1.TestRequest{Id: "forged"}
		p.admin.putGlobal(t, g)
		p.empower(t, "fleet", "admin", everywhere())
		p.push(t, commitA)
		p.admin.must(t, declare("fleet", "fleet"))
		p.healthy(t, "fleet", "f1", files{"fleet/a.yaml": yaml("a", "  path: a\n  tests: {path: tests}\n")})
		_, err = tests.RunTests(t.Context(), &consolev1.RunTestsRequest{Service: "fleet"})
		wantCode(t, err, connect.CodeFailedPrecondition, "goes to the catalog")
		for i, name := range []string{"logs-edge-1", "a"} {
			is := p.admin.service(t, name)
			if is.GetSpec().GetTests().GetPath() != "tests" || is.GetSpec().GetTestRequest() != nil {
				t.Errorf("%s: %v", name, is.GetSpec())
			}
			report(t, p.distributor, &deliveryv1.ServiceReport{
				Service: name, Sequence: 1, AppliedDigest: "d", Digest: "d", Phase: deliveryv1.Phase_PHASE_HEALTHY,
			})
			runTests(t, tests, name, fmt.Sprintf("run-%d", i))
		}
		before := p.admin.service(t, "logs-edge-1").GetMetadata().GetEtag()
		p.admin.putGlobal(t, g)
		if after := p.admin.service(t, "logs-edge-1").GetMetadata().GetEtag(); after != before {
			t.Errorf("the same global service wrote it: %s, %s", before, after)
		}
		g.Spec.Template.Namespace = "other"
		p.admin.putGlobal(t, g)
		p.healthy(t, "fleet", "f2", files{"fleet/a.yaml": yaml("a", "  path: a2\n  tests: {path: tests}\n")})
		for i, name := range []string{"logs-edge-1", "a"} {
			if got := p.admin.service(t, name).GetSpec(); got.GetTestRequest().GetId() != fmt.Sprintf("run-%d", i) ||
				got.GetPath()+got.GetNamespace() == "" {
				t.Errorf("%s after a change: %v", name, got)
			}
		}
	})
}

// Another agent goes on with a run, or tells the end of it, without the logs that were on the disk of the one before.
func TestWhatAnAgentHasLostOfARunIsKept(t *testing.T) {
	t.Parallel()
	r := newHub(t, "").start(t)
	p := newPast(t, r)
	p.push(t, commitA)
	p.deliver(t, commitA, "d1", deliveryv1.Phase_PHASE_HEALTHY)
	tests := r.tests(t, r.adminToken(t))
	get := func() *deliveryv1.TestRun {
		t.Helper()
		out, err := tests.GetTestRun(t.Context(), &consolev1.GetTestRunRequest{Service: "web", Id: "one"})
		if err != nil {
			t.Fatal(err)
		}
		return out.GetRun()
	}
	began := time.Now().Add(-time.Minute)
	result := func(name, log string, ended bool) *deliveryv1.TestResult {
		out := &deliveryv1.TestResult{
			Kind: "Job", Namespace: "shop", Name: name, Attempts: 1, Outcome: underway, Log: log,
		}
		if ended {
			out.Outcome, out.EndTime = passed, timestamppb.New(began.Add(time.Second))
		}
		return out
	}
	run := func(partial bool, outcome deliveryv1.TestOutcome, results ...*deliveryv1.TestResult) *deliveryv1.TestRun {
		out := &deliveryv1.TestRun{
			Id: "one", Digest: "d1", Outcome: outcome, StartTime: timestamppb.New(began), Partial: partial,
			Results: results,
		}
		if outcome != underway {
			out.EndTime = timestamppb.New(began.Add(20 * time.Second))
		}
		return out
	}
	tell := func(seen time.Time, run *deliveryv1.TestRun) {
		t.Helper()
		c := p.syncing(t, p.distributorToken(t))
		if _, err := c.objects.RecordDetails(t.Context(), &consolev1.RecordDetailsRequest{
			Cluster: "edge-1", Detail: &deliveryv1.ServiceDetail{
				Service: p.service, Digest: "d1", ObservedTime: timestamppb.New(seen),
				Detail: &deliveryv1.ServiceDetail_TestRun{TestRun: run},
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
	first := result("first", "of the first\n", true)
	first.CasesPassed, first.Cases = 1, []*deliveryv1.TestCase{{Name: "a"}}
	tell(began.Add(time.Second), run(false, underway, first, result("second", "", false)))
	tell(began.Add(2*time.Second), run(true, underway, result("first", "", true), result("second", "", false)))
	if got := get(); got.GetPartial() || got.GetResults()[0].GetLog() != "of the first\n" ||
		got.GetResults()[0].GetCasesPassed() != 1 || len(got.GetResults()[0].GetCases()) != 1 {
		t.Errorf("got %v", got)
	}
	tell(began.Add(20*time.Second), run(true, passed, result("first", "", true), result("second", "", true)))
	if got := get(); got.GetOutcome() != passed || !got.GetPartial() ||
		got.GetResults()[0].GetLog() != "of the first\n" || got.GetResults()[1].GetLog() != "" {
		t.Errorf("got %v", got)
	}
	// The agent that saw the end leads again, and has the logs.
	tell(began.Add(19*time.Second),
		run(false, passed, result("first", "of the first\n", true), result("second", "of the second\n", true)))
	if got := get(); got.GetPartial() || got.GetResults()[1].GetLog() != "of the second\n" {
		t.Errorf("got %v", got)
	}
	tell(began.Add(30*time.Second), run(true, passed, result("first", "", true), result("second", "", true)))
	if got := get(); got.GetResults()[1].GetLog() != "of the second\n" {
		t.Errorf("got %v", got)
	}
}
