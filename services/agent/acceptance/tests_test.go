package acceptance

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/inventory"
)

const (
	passed   = deliveryv1.TestOutcome_TEST_OUTCOME_PASSED
	failing  = deliveryv1.TestOutcome_TEST_OUTCOME_FAILED
	timedOut = deliveryv1.TestOutcome_TEST_OUTCOME_TIMED_OUT
	aborted  = deliveryv1.TestOutcome_TEST_OUTCOME_ABORTED
	broken   = deliveryv1.TestOutcome_TEST_OUTCOME_ERROR
	skipped  = deliveryv1.TestOutcome_TEST_OUTCOME_SKIPPED
)

// tests changes how the tests of a service run.
func (h *testHub) tests(service string, spec *deliveryv1.TestSpec) {
	h.change(service, func(sent *deliveryv1.ServiceDelivery) { sent.Tests = spec })
}

// ask asks for a run of the tests.
func (h *testHub) ask(service, id string) string {
	return h.change(service, func(sent *deliveryv1.ServiceDelivery) {
		sent.TestRequest = &deliveryv1.TestRequest{Id: id, Author: "user:ada"}
	})
}

func (h *testHub) change(service string, change func(*deliveryv1.ServiceDelivery)) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	sent := &deliveryv1.ServiceDelivery{Name: service}
	known := h.services[service]
	if known != nil {
		sent = proto.CloneOf(known)
	}
	change(sent)
	if sent.GetArtifact() == nil { // push brings the rest
		h.services[service] = sent
		return ""
	}
	seal(sent)
	h.services[service] = sent
	h.nudge()
	return sent.GetDigest()
}

// ends waits for the end of a run.
func (w *world) ends(service, id string) *deliveryv1.TestRun {
	w.t.Helper()
	return w.hub.awaitDetail(w.t, service, func(d *deliveryv1.ServiceDetail) bool {
		return d.GetTestRun().GetId() == id && d.GetTestRun().GetEndTime() != nil
	}).GetTestRun()
}

// runs are the ids of the runs of a service that the hub was told of.
func (w *world) runs(service string) []string {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	var ids []string
	for _, d := range w.hub.details {
		if id := d.GetTestRun().GetId(); d.GetService() == service && id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// runningJob is one whose pod runs, and ends well at once.
func runningJob(name, annotations string) string {
	return strings.Replace(job(name, annotations), "suspend: true, ", "", 1)
}

func testPod(name, annotations string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, annotations: {%s}}\nspec: {restartPolicy: Never, containers: [{name: c, image: pause}]}\n", name, annotations)
}

// endPod ends a pod as its kubelet would.
func (w *world) endPod(name, phase string, exit int) {
	w.t.Helper()
	await.True(w.t, "pod "+name+" runs", func() bool { return w.field("v1", "Pod", name, "status", "phase") == "Running" })
	kubectl(w, "", "patch", "pod", name, "--subresource=status", "--type=merge", fmt.Sprintf(
		`-p={"status":{"phase":%q,"containerStatuses":[{"name":"c","image":"pause","imageID":"","ready":false,"restartCount":0,"state":{"terminated":{"exitCode":%d,"reason":"Error"}}}]}}`, phase, exit))
}

func TestTestsRunWhenTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("tested")
	const helm = "helm.sh/hook: test, helm.sh/hook-weight: "
	files := map[string]string{"all.yaml": configMap("a", "1") + runningJob("hook", "fairlead.dev/hook: post-sync") +
		runningJob("second", helm+`"2"`) + annotated("needed", "1", helm+`"1"`) + runningJob("first", helm+`"1"`) +
		runningJob("ours", "fairlead.dev/hook: test")}
	digest := w.hub.push(t, name, w.namespace, files)
	first := w.hub.awaitPhase(t, name, digest, healthy)
	for _, one := range []string{"first", "second", "ours"} {
		w.mustBeGone("batch/v1", "Job", w.namespace, one)
	}
	if first.GetTests() != nil {
		t.Errorf("got %v", first.GetTests())
	}
	asked := w.hub.ask(name, "one")
	run := w.ends(name, "one")
	if run.GetOutcome() != passed || run.GetCause() != deliveryv1.TestCause_TEST_CAUSE_REQUEST ||
		run.GetDigest() != digest || run.GetCommit() == "" || run.GetStartTime() == nil {
		t.Errorf("got %v", run)
	}
	var names []string
	for _, result := range run.GetResults() {
		names = append(names, result.GetName())
		if result.GetOutcome() != passed || result.GetAttempts() != 1 || result.GetEndTime() == nil ||
			!strings.Contains(result.GetLog(), "of a container played by kwok\n") {
			t.Errorf("got %v", result)
		}
	}
	if want := []string{"ours", "first", "second"}; !slices.Equal(names, want) {
		t.Errorf("they ran as %v, want %v", names, want)
	}
	report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == asked && r.GetPhase() == healthy && r.GetTests().GetOutcome() == passed
	})
	if got := report.GetTests(); got.GetId() != "one" || got.GetPassed() != 3 || got.GetFailed() != 0 ||
		got.GetDigest() != digest || got.GetEndTime() == nil {
		t.Errorf("got %v", got)
	}
	if report.GetAppliedDigest() != asked ||
		!report.GetAppliedTime().AsTime().Equal(first.GetAppliedTime().AsTime()) ||
		report.GetAppliedCommit() != first.GetAppliedCommit() {
		t.Errorf("the revision is another one: %v, before %v", report, first)
	}
	for _, one := range []string{"first", "second", "ours"} {
		w.leaves("batch/v1", "Job", one)
	}
	w.leaves("v1", "ConfigMap", "needed")
	// No other agent runs them again for the same asking, and none a hook.
	stop()
	w.emptyDisk()
	w.start()
	w.hub.awaitPhase(t, name, asked, healthy)
	w.hub.tests(name, &deliveryv1.TestSpec{Retries: 1})
	w.hub.ask(name, "two")
	w.ends(name, "two")
	if made := w.api.patches("/jobs/first"); made != 2 {
		t.Errorf("a test ran %d times", made)
	}
	if made := w.api.patches("/jobs/hook"); made != 1 {
		t.Errorf("a hook ran %d times", made)
	}
	if runs := w.runs(name); len(runs) != 2 {
		t.Errorf("there were the runs %v", runs)
	}
}

func TestTestsInAFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("folder")
	files := map[string]string{
		"a.yaml": configMap("a", "1"), "tests/kustomization.yaml": "namePrefix: t-\nresources: [a.yaml]\n",
		"tests/a.yaml": runningJob("check", "") + annotated("data", "1", ""),
	}
	w.hub.tests(name, &deliveryv1.TestSpec{
		Path: "tests", On: deliveryv1.TestTrigger_TEST_TRIGGER_REVISION, ServiceAccount: "tester",
	})
	w.kubectl("create", "serviceaccount", "tester")
	digest := w.hub.push(t, name, w.namespace, files)
	report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == digest && r.GetTests().GetEndTime() != nil
	})
	if got := report.GetTests(); got.GetOutcome() != passed ||
		got.GetCause() != deliveryv1.TestCause_TEST_CAUSE_REVISION || got.GetPassed() != 1 ||
		report.GetObjectsTotal() != 1 {
		t.Errorf("got %v", report)
	}
	if sent := w.sent(); len(sent) < 3 || !slices.Equal(sent[:3], []string{"a", "t-data", "t-check"}) {
		t.Errorf("sent %v", sent)
	}
	w.leaves("v1", "ConfigMap", "t-data")
	// A revision is tested once.
	w.hub.tests(name, &deliveryv1.TestSpec{Path: "tests", On: deliveryv1.TestTrigger_TEST_TRIGGER_REVISION})
	w.hub.ask(name, "more")
	w.ends(name, "more")
	files["a.yaml"] = configMap("a", "2")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	await.True(w.t, "the next revision is tested", func() bool { return len(w.runs(name)) == 3 })
	// A folder that is not there is said.
	name = w.service("none")
	w.hub.tests(name, &deliveryv1.TestSpec{Path: "none"})
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"b.yaml": configMap("b", "1")}),
		healthy)
	w.hub.ask(name, "none")
	if run := w.ends(name, "none"); run.GetOutcome() != broken ||
		!strings.Contains(run.GetMessage(),
			"apps/hello/none: there is no such folder. Mend tests.path, or push the folder.") {
		t.Errorf("got %v", run)
	}
}

func TestATestThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("fails")
	w.hub.tests(name, &deliveryv1.TestSpec{Retries: 1, Degrades: true})
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"all.yaml": configMap("a", "1") + job("check", "fairlead.dev/hook: test") +
			job("clears", "fairlead.dev/hook: test, fairlead.dev/hook-delete: succeeded") +
			runningJob("later", `fairlead.dev/hook: test, fairlead.dev/wave: "1"`),
	})
	w.hub.awaitPhase(t, name, digest, healthy)
	w.hub.ask(name, "one")
	uid := w.found("batch/v1", "Job", "check").GetUID()
	w.end("check", "Failed")
	w.awaitAnotherJob("check", uid)
	w.end("check", "Failed")
	w.end("clears", "Complete")
	run := w.ends(name, "one")
	if want := "Job " + w.namespace + "/check failed: the test says so."; run.GetOutcome() != failing ||
		run.GetMessage() != want {
		t.Errorf("got %v, want %s", run, want)
	}
	results := run.GetResults()
	if results[0].GetOutcome() != failing || results[0].GetAttempts() != 2 || results[1].GetOutcome() != passed ||
		results[2].GetOutcome() != skipped || results[2].GetAttempts() != 0 {
		t.Errorf("got %v", results)
	}
	report := w.hub.awaitPhase(t, name, w.hub.services[name].GetDigest(), degraded)
	if want := "Its tests failed: Job " + w.namespace +
		"/check failed"; !strings.HasPrefix(report.GetMessage(), want) || report.GetTests().GetFailed() != 1 {
		t.Errorf("got %v", report)
	}
	w.leaves("batch/v1", "Job", "clears")
	kept := w.found("batch/v1", "Job", "check").GetUID()
	// The next run begins without it, and one that passes ends that.
	w.hub.ask(name, "two")
	w.awaitAnotherJob("check", kept)
	w.end("check", "Complete")
	w.end("clears", "Complete")
	if run := w.ends(name, "two"); run.GetOutcome() != passed {
		t.Errorf("got %v", run)
	}
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetTests().GetId() == "two" && r.GetPhase() == healthy
	})
	w.leaves("batch/v1", "Job", "check")
}

func TestARunGoesOnWithAnotherAgent(t *testing.T) {
	t.Parallel()
	for _, emptied := range []bool{false, true} {
		t.Run(fmt.Sprint(emptied), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			kill := w.process()
			name := w.service("goeson")
			digest := w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": configMap("a", "1") +
				runningJob("first", `fairlead.dev/hook: test, fairlead.dev/wave: "-1"`) +
				job("check", "fairlead.dev/hook: test")})
			w.hub.awaitPhase(t, name, digest, healthy)
			w.hub.ask(name, "one")
			w.found("batch/v1", "Job", "check")
			kill()
			if emptied {
				w.emptyDisk()
			}
			w.end("check", "Complete")
			w.process()
			run := w.ends(name, "one")
			if run.GetOutcome() != passed || len(run.GetResults()) != 2 || run.GetResults()[0].GetAttempts() != 1 ||
				emptied != (run.GetResults()[0].GetLog() == "") {
				t.Errorf("got %v", run)
			}
			for _, one := range []string{"first", "check"} {
				if made := w.api.patches("/jobs/" + one); made != 1 {
					t.Errorf("test %s ran %d times", one, made)
				}
				w.leaves("batch/v1", "Job", one)
			}
		})
	}
}

// Between the making of a test and the note of it an agent may be killed, and the test be over and gone when the next
// one looks.
func TestATestThatRanWhileNoAgentLooked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	stalled := make(chan struct{})
	isMade := false
	once := sync.OnceFunc(func() { close(stalled) })
	w.api.set(func(r *http.Request) int {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/jobs/check") {
			isMade = true
		} else if isMade && r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/configmaps/inventory.") {
			_, _ = io.Copy(io.Discard, r.Body)
			once()
			<-r.Context().Done()
			return http.StatusServiceUnavailable
		}
		return 0
	})
	kill := w.process()
	name := w.service("unseen")
	text := strings.Replace(runningJob("check", "fairlead.dev/hook: test"), "spec: {",
		"spec: {ttlSecondsAfterFinished: 0, ", 1)
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": configMap("a", "1") + text}), healthy)
	w.hub.ask(name, "one")
	waitFor(t, stalled, "the note of what was made")
	kill()
	w.leaves("batch/v1", "Job", "check")
	w.api.set(nil)
	w.process()
	if run := w.ends(name, "one"); run.GetOutcome() != passed && run.GetOutcome() != broken {
		t.Errorf("got %v", run)
	}
	if made := w.api.patches("/jobs/check"); made != 1 {
		t.Errorf("the test ran %d times", made)
	}
}

func TestARunEndsWithItsRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("ends")
	text := job("check", "fairlead.dev/hook: test, fairlead.dev/hook-delete: before-creation")
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": configMap("a", "1") + text}), healthy)
	for _, test := range []struct {
		id, want string
		end      func()
	}{
		{"revision", "A newer revision came.", func() {
			w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": configMap("a", "2") + text})
		}},
		{
			"changed", "Its tests were changed.",
			func() { w.hub.tests(name, &deliveryv1.TestSpec{ServiceAccount: "other"}) },
		},
		{"suspended", "The service was suspended.", func() {
			w.hub.sync(name, &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_SUSPEND})
		}},
	} {
		w.hub.ask(name, test.id)
		w.found("batch/v1", "Job", "check")
		test.end()
		if run := w.ends(name, test.id); run.GetOutcome() != aborted || run.GetMessage() != test.want ||
			run.GetResults()[0].GetOutcome() != aborted {
			t.Errorf("got %v", run)
		}
		w.leaves("batch/v1", "Job", "check")
	}
	w.hub.ask(name, "not")
	if run := w.ends(name, "not"); run.GetOutcome() != broken ||
		run.GetMessage() != "The service is suspended: no tests are run." {
		t.Errorf("got %v", run)
	}
	w.mustBeGone("batch/v1", "Job", w.namespace, "check")
}

func TestARemovalTakesTestsAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kill := w.process()
	name := w.service("leaves")
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"all.yaml": configMap("a", "1") + job("check", "fairlead.dev/hook: test"),
		}), healthy)
	w.hub.ask(name, "one")
	w.found("batch/v1", "Job", "check")
	kill()
	w.hub.remove(name)
	w.process()
	w.hub.await(t, name, gone)
	w.mustBeGone("batch/v1", "Job", w.namespace, "check")
	w.mustBeGone("v1", "ConfigMap", inventory.Namespace, "inventory."+name)
}

func TestTestsThatCannotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	for _, test := range []struct {
		name, text string
		outcome    deliveryv1.TestOutcome
		want       string
		do         func()
	}{
		{
			"none", "", skipped, "The service has no tests: no Job or Pod of it is marked by fairlead.dev/hook: test.",
			nil,
		},
		{
			"refused",
			strings.Replace(job("refused",
				"fairlead.dev/hook: test"), "restartPolicy: Never", "restartPolicy: Always", 1),
			broken, "/refused could not run: spec.template.spec.restartPolicy", nil,
		},
		{
			"wrong", job("wrong", "fairlead.dev/hook: test, fairlead.dev/test-report: here"), broken,
			"annotation fairlead.dev/test-report: \"here\" must be the path of a file", nil,
		},
		{
			"taken",
			"---\n" + configMap("taken-b", "1") + annotated("taken-b", "2", "fairlead.dev/hook: test") +
				runningJob("taken", "fairlead.dev/hook: test"),
			broken,
			"taken-b could not run: it has the name of an object that the service applies; give it another one.", nil,
		},
		{
			"never", testPod("never", "fairlead.dev/hook: test"), timedOut,
			"/never took too long: it did not end in time: has not ended.", nil,
		},
		{
			"own", testPod("own", "fairlead.dev/hook: test, fairlead.dev/timeout: 300ms"), timedOut,
			"/own took too long", nil,
		},
		{
			"pull",
			strings.Replace(testPod("pull", "fairlead.dev/hook: test"), "spec: {", "spec: {schedulerName: none, ", 1),
			broken, "/pull could not run: has not ended (container c: ErrImagePull: no such image).", func() {
				w.found("v1", "Pod", "pull")
				kubectl(w, "", "patch", "pod", "pull", "--subresource=status", "--type=merge",
					`-p={"status":{"containerStatuses":[{"name":"c","image":"none-such","imageID":"","ready":false,"restartCount":0,"state":{"waiting":{"reason":"ErrImagePull","message":"no such image"}}}]}}`)
			},
		},
		{
			"deleted", job("deleted", "fairlead.dev/hook: test"), aborted,
			"/deleted was ended: somebody deleted it before it had ended.", func() {
				w.found("batch/v1", "Job", "deleted")
				kubectl(w, "", "delete", "job", "deleted", "--wait=false")
			},
		},
		{
			"exit", testPod("exit", "fairlead.dev/hook: test"), failing,
			"/exit failed: (container c: exit code 3, Error).", func() { w.endPod("exit", "Failed", 3) },
		},
	} {
		name := w.service(test.name)
		seconds := 60
		switch test.name {
		case "never":
			seconds = 2
		case "pull":
			seconds = 40 // it is asked after half of them: a busy machine takes some to say that there is no such image
		}
		w.hub.tests(name, &deliveryv1.TestSpec{Timeout: durationpb.New(time.Duration(seconds) * time.Second)})
		digest := w.hub.push(t, name, w.namespace, map[string]string{
			"all.yaml": configMap(test.name+"-a", "1") + test.text,
		})
		w.hub.awaitPhase(t, name, digest, healthy)
		w.hub.ask(name, "one")
		if test.do != nil {
			test.do()
		}
		if run := w.ends(name, "one"); run.GetOutcome() != test.outcome ||
			!strings.Contains(run.GetMessage(), test.want) {
			t.Errorf("%s: got %v, want %s", test.name, run, test.want)
		}
	}
	// A test that does not end is ended.
	w.leaves("v1", "Pod", "never")
	w.leaves("v1", "Pod", "own")
}

func TestLogsOfTests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const password = "swordfish-of-the-harbour"
	w.api.mu.Lock()
	w.api.log = func(out io.Writer, pod string) {
		switch {
		case strings.HasPrefix(pod, "long"):
			line := []byte(strings.Repeat("x", 1023) + "\n")
			for range 40 << 10 { // 40 MiB
				if _, err := out.Write(line); err != nil {
					return
				}
			}
			fmt.Fprintln(out, "the end")
		case strings.HasPrefix(pod, "junit"):
			fmt.Fprintf(out, "begin\n<?xml version=\"1.0\"?>\n<testsuites><testsuite name=\"s\"><testcase name=\"a\" time=\"0.5\"/><testcase classname=\"k\" name=\"b\"><failure message=\"no %s\">at line 1</failure></testcase><testcase name=\"c\"><skipped/></testcase></testsuite></testsuites>\nend\n", password)
		case strings.HasPrefix(pod, "bomb"):
			fmt.Fprint(out, `<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">]><testsuite><testcase name="&a;&a;"/></testsuite>`+
				"\n"+strings.Repeat("<testsuite>", 100_000))
		default:
			fmt.Fprintf(out, "password: %s\ntoken: mast-and-sail-99\n", password)
		}
	}
	w.api.mu.Unlock()
	w.start()
	name := w.service("logs")
	w.hub.change(name, func(sent *deliveryv1.ServiceDelivery) {
		sent.Configuration = &deliveryv1.Configuration{
			Revision: "1",
			Entries: []*deliveryv1.ConfigurationEntry{
				{Name: "password", Secret: true, Value: &deliveryv1.ConfigurationEntry_Text{Text: password}},
			},
		}
	})
	text := configMap("a", "1") + secret("login", "mast-and-sail-99", "")
	for _, one := range []string{"bomb", "junit", "long", "secret", "ttl"} {
		text += runningJob(one, "helm.sh/hook: test")
	}
	text = strings.Replace(text, "metadata: {name: ttl, annotations: {helm.sh/hook: test}}\nspec: {",
		"metadata: {name: ttl, annotations: {helm.sh/hook: test}}\nspec: {ttlSecondsAfterFinished: 0, ", 1)
	digest := w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": text})
	w.hub.awaitPhase(t, name, digest, healthy)
	w.hub.ask(name, "one")
	run := w.ends(name, "one")
	if strings.Contains(run.String(), password) || strings.Contains(run.String(), "mast-and-sail-99") {
		t.Error("the secret is told")
	}
	results, total := map[string]*deliveryv1.TestResult{}, 0
	for _, result := range run.GetResults() {
		results[result.GetName()] = result
		total += len(result.GetLog())
		if result.GetOutcome() != passed {
			t.Errorf("got %v", result)
		}
	}
	if total > 256<<10 || total < 200<<10 {
		t.Errorf("the logs have %d bytes", total)
	}
	if got := results["long"]; !got.GetLogCut() || !strings.HasSuffix(got.GetLog(), "x\nthe end\n") ||
		!strings.HasPrefix(got.GetLog(), "xxx") {
		t.Errorf("got %d bytes", len(got.GetLog()))
	}
	for _, one := range []string{"secret", "ttl"} {
		if got := results[one].GetLog(); got != "password: ***\ntoken: ***\n" {
			t.Errorf("%s: got %q", one, got)
		}
	}
	if got := results["junit"]; got.GetCasesPassed() != 1 || got.GetCasesFailed() != 1 || got.GetCasesSkipped() != 1 ||
		len(got.GetCases()) != 3 ||
		got.GetCases()[0].GetName() != "b" || got.GetCases()[0].GetClass() != "k" ||
		got.GetCases()[0].GetMessage() != "no ***\nat line 1" ||
		got.GetCases()[2].GetDuration().AsDuration() != 500*time.Millisecond {
		t.Errorf("got %v", got.GetCases())
	}
	if got := results["bomb"]; len(got.GetCases()) != 0 {
		t.Errorf("got %v", got.GetCases())
	}
}

func TestATestLeavesItsReportInAFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("file")
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"all.yaml": configMap("a", "1") +
				testPod("check", "helm.sh/hook: test, fairlead.dev/test-report: /out/junit.xml"),
		}), healthy)
	w.hub.ask(name, "one")
	await.True(w.t, "pod check runs", func() bool { return w.field("v1", "Pod", "check", "status", "phase") == "Running" })
	kubectl(w, "", "patch", "pod", "check", "--subresource=status", "--type=merge",
		`-p={"status":{"phase":"Succeeded","containerStatuses":[{"name":"c","image":"pause","imageID":"","ready":false,"restartCount":0,"state":{"terminated":{"exitCode":0,"message":"<testsuite><testcase name='a'/></testsuite>"}}}]}}`)
	run := w.ends(name, "one")
	if got := run.GetResults()[0]; run.GetOutcome() != passed || got.GetCasesPassed() != 1 ||
		got.GetCases()[0].GetName() != "a" {
		t.Errorf("got %v", run)
	}
}

// An object that no test has made is neither replaced nor removed by one.
func TestATestLeavesObjectsOfOthersAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("strangers")
	kubectl(w, job("theirs", ""), "apply", "-f", "-")
	kubectl(w, configMap("settings", "theirs"), "apply", "-f", "-")
	before := w.found("batch/v1", "Job", "theirs").GetUID()
	digest := w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": configMap("a", "1") +
		annotated("settings", "ours", "fairlead.dev/hook: test") + runningJob("theirs", "fairlead.dev/hook: test")})
	w.hub.awaitPhase(t, name, digest, healthy)
	w.hub.ask(name, "one")
	run := w.ends(name, "one")
	if run.GetOutcome() != broken || !strings.Contains(run.GetMessage(), "no test has made") {
		t.Errorf("got %v", run)
	}
	if after := w.found("batch/v1", "Job", "theirs"); after.GetUID() != before {
		t.Error("somebody's Job was replaced")
	}
	w.mustData("settings", "theirs")
}

// A run ends at once with its revision, and its log is told without the secrets of its own tests, though the new
// revision can't be applied.
func TestARunOfAnEarlierRevisionIsClearedAwayAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.api.mu.Lock()
	w.api.log = func(out io.Writer, _ string) { fmt.Fprintln(out, "token: mast-and-sail-77") }
	w.api.mu.Unlock()
	w.start()
	name := w.service("early")
	tests := secret("login", "mast-and-sail-77", `fairlead.dev/hook: test, fairlead.dev/wave: "-1"`) +
		testPod("check", "fairlead.dev/hook: test")
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": configMap("a", "1") + tests}), healthy)
	w.hub.ask(name, "one")
	await.True(w.t, "the test runs", func() bool { return w.field("v1", "Pod", "check", "status", "phase") == "Running" })
	w.hub.push(t, name, w.namespace, map[string]string{
		"all.yaml": configMap("a", "2") + job("never", "fairlead.dev/hook: pre-sync"),
	})
	run := w.ends(name, "one")
	if run.GetOutcome() != aborted || strings.Contains(run.String(), "mast-and-sail-77") {
		t.Errorf("got %v", run)
	}
	w.leaves("v1", "Pod", "check")
	w.leaves("v1", "Secret", "login")
	w.found("batch/v1", "Job", "never")
}

// An object that tests needed once, and the service applies by now, is the service's.
func TestAnObjectOfTestsBecomesTheServices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("becomes")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"all.yaml": configMap("a", "1") +
			annotated("shared", "1", `fairlead.dev/hook: test, fairlead.dev/wave: "-1"`) +
			testPod("check", "fairlead.dev/hook: test"),
	}), healthy)
	w.hub.ask(name, "one")
	w.endPod("check", "Failed", 1)
	if run := w.ends(name, "one"); run.GetOutcome() != failing {
		t.Errorf("got %v", run)
	}
	before := w.found("v1", "ConfigMap", "shared").GetUID()
	next := w.hub.push(t, name, w.namespace, map[string]string{
		"all.yaml": configMap("a", "2") + "---\n" + configMap("shared", "2"),
	})
	w.hub.awaitPhase(t, name, next, healthy)
	w.hub.ask(name, "two")
	w.ends(name, "two")
	if after := w.found("v1", "ConfigMap", "shared").GetUID(); after != before {
		t.Error("it was deleted, and made again")
	}
	w.mustData("shared", "2")
}

// The tests of a run see the values that the service has when the run begins.
func TestTestsAreRenderedAnewForEachRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("values")
	settings := func(value string) {
		t.Helper()
		kubectl(w, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {values.yaml: \"a: "+value+
			"\"}\n", "-n", w.namespace, "apply", "-f", "-")
	}
	w.hub.renders(name, &deliveryv1.HelmSpec{
		ValuesFrom: []*deliveryv1.ValuesReference{{Kind: "ConfigMap", Name: "settings"}},
	})
	settings("first")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"Chart.yaml": chartOnly, "templates/a.yaml": configMap("all", "{{ .Values.a }}"),
		"templates/test.yaml": annotated("seen", "{{ .Values.a }}",
			"fairlead.dev/hook: test, fairlead.dev/hook-delete: before-creation") +
			runningJob("check", "fairlead.dev/hook: test"),
	}), healthy)
	w.hub.ask(name, "one")
	if run := w.ends(name, "one"); run.GetOutcome() != passed {
		t.Fatalf("got %v", run)
	}
	w.mustData("seen", "first")
	settings("second")
	await.True(w.t, "the service has the other value", func() bool { return w.value("all") == "second" })
	w.hub.ask(name, "two")
	if run := w.ends(name, "two"); run.GetOutcome() != passed {
		t.Fatalf("got %v", run)
	}
	w.mustData("seen", "second")
}

// The hub is told how a run ended, though the agent that saw it has lost its disk before the hub could be told.
func TestTheEndOfARunOutlivesTheDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kill := w.process()
	name := w.service("outlives")
	w.hub.tests(name, &deliveryv1.TestSpec{})
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"all.yaml": configMap("a", "1") + job("check", "fairlead.dev/hook: test"),
		}), healthy)
	w.hub.ask(name, "one")
	w.hub.awaitDetail(t, name, func(d *deliveryv1.ServiceDetail) bool { return d.GetTestRun().GetId() == "one" })
	w.hub.setDeaf(true)
	w.end("check", "Complete")
	w.leaves("batch/v1", "Job", "check")
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetTests().GetOutcome() == passed })
	kill()
	w.emptyDisk()
	w.hub.setDeaf(false)
	w.process()
	run := w.ends(name, "one")
	if run.GetOutcome() != passed || !run.GetPartial() || len(run.GetResults()) != 1 ||
		run.GetResults()[0].GetOutcome() != passed || run.GetResults()[0].GetName() != "check" {
		t.Errorf("got %v", run)
	}
	// Once the hub has it, the inventory needs the tests no longer.
	await.True(w.t, "the inventory has the summary only",
		func() bool { return !strings.Contains(string(w.record(name).Tests), "check") })
}

// A run that was asked for and can't begin says nothing about the service.
func TestAnAskingThatCannotRunDegradesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("cannot")
	w.hub.tests(name, &deliveryv1.TestSpec{Degrades: true})
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"all.yaml": configMap("a", "1") + runningJob("check", "fairlead.dev/hook: test"),
		}), healthy)
	w.hub.sync(name, &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_SUSPEND})
	w.hub.ask(name, "one")
	if run := w.ends(name, "one"); run.GetOutcome() != broken ||
		run.GetMessage() != "The service is suspended: no tests are run." {
		t.Errorf("got %v", run)
	}
	digest := w.hub.sync(name, &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_AUTO})
	report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == digest && (r.GetPhase() == healthy || r.GetPhase() == degraded)
	})
	if report.GetPhase() != healthy || report.GetTests().GetOutcome() != broken {
		t.Errorf("got %v", report)
	}
}
