package views

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/clusterview"
	"fairlead.dev/platform/retry"
	"fairlead.dev/services/agent/internal/cluster"
)

// sectionOf returns the section of a name.
func sectionOf(t *testing.T, v *View, name string) *deliveryv1.ViewSection {
	t.Helper()
	sections, ok := v.Sections()
	if !ok {
		t.Fatal("the view has not begun")
	}
	for _, s := range sections {
		if s.GetName() == name {
			return s
		}
	}
	t.Fatalf("there is no section %s", name)
	return nil
}

// polling is a view that looks at one kind of an API server in the test's process, once.
func polling(t *testing.T, kind string, api tripper) *View {
	t.Helper()
	v := viewOf(t, api)
	for _, k := range v.kinds {
		if !k.spare {
			k.state, k.known = deliveryv1.SectionState_SECTION_STATE_WHOLE, true
		}
	}
	k := v.kindOf(kind)
	if err := k.look(t.Context()); err != nil {
		v.judge(t.Context(), k, err, &retry.Backoff{Floor: time.Millisecond, Max: time.Millisecond})
		return v
	}
	k.known = true
	v.whole(k)
	return v
}

func says(code int, kind, body string) tripper {
	return func(r *http.Request) (*http.Response, error) {
		return answerOf(r, code, kind, io.NopCloser(strings.NewReader(body))), nil
	}
}

const usageOfThree = `{"kind":"NodeMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[
{"metadata":{"name":"a"},"timestamp":"2026-01-01T00:00:00Z","window":"10s","usage":{"cpu":"1500m","memory":"1Gi"}},
{"metadata":{"name":"b"},"usage":{"cpu":"250000000n","memory":"1048576Ki"}},
{"metadata":{"name":"c"},"usage":{}}]}`

func TestWhatNodesUseIsTheSumOfTheirMetrics(t *testing.T) {
	t.Parallel()
	s := sectionOf(t, polling(t, kindUsage, says(http.StatusOK, "application/json", usageOfThree)), clusterview.Used)
	if f := s.GetFigures(); f["cpu"] != 1750 || f["memory"] != 2<<30 || f["nodes"] != 2 ||
		s.GetState() != deliveryv1.SectionState_SECTION_STATE_WHOLE {
		t.Errorf("got %v", s)
	}
}

// Of a large cluster the metrics are megabytes, which are read node by node.
func TestWhatManyNodesUseTakesLittleMemory(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	const nodes, mostMiB = 20_000, 8
	one := `{"metadata":{"name":"` + strings.Repeat("n", 400) +
		`"},"timestamp":"2026-01-01T00:00:00Z","window":"10s","usage":{"cpu":"1m","memory":"1Ki"}}`
	list := `{"kind":"NodeMetricsList","metadata":{"items":[{}]},"items":[` + strings.Repeat(one+",", nodes-1) + one +
		`],"apiVersion":"metrics.k8s.io/v1beta1"}`
	seen, err := cluster.New(&rest.Config{
		Host: "http://kubernetes.test", Transport: says(http.StatusOK, "application/json", list),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	u, err := seen.Usage(t.Context())
	runtime.ReadMemStats(&after)
	if want := (cluster.Usage{Nodes: nodes, CPU: nodes, Memory: nodes << 10}); err != nil || u != want {
		t.Errorf("got %v, %v", u, err)
	}
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > mostMiB {
		t.Errorf("%d MiB of metrics take %d MiB", len(list)>>20, used)
	} else {
		t.Logf("%d MiB of metrics take %d MiB", len(list)>>20, used)
	}
}

// Half of the metrics are not those of the cluster.
func TestMetricsOfNodesThatAreCutOffAreNotCounted(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		usageOfThree[:len(usageOfThree)-2], usageOfThree[:200], "", "[]", `{"items":{}}`, `{"items":[{"usage":7}]}`,
	} {
		s := sectionOf(t, polling(t, kindUsage, says(http.StatusOK, "application/json", body)), clusterview.Used)
		if s.GetFigures() != nil {
			t.Errorf("of %q: got %v", body, s)
		}
	}
}

// Without metrics-server nothing is wrong: the figures are absent, and the view is complete.
func TestWithoutMetricsServerUsageIsAbsent(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]deliveryv1.SectionState{
		http.StatusNotFound:           deliveryv1.SectionState_SECTION_STATE_WHOLE,
		http.StatusForbidden:          deliveryv1.SectionState_SECTION_STATE_DENIED,
		http.StatusServiceUnavailable: deliveryv1.SectionState_SECTION_STATE_READING,
	} {
		s := sectionOf(t, polling(t, kindUsage,
			says(code, "application/json",
				fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, code))), clusterview.Used)
		if s.GetState() != want || s.GetFigures() != nil ||
			(s.GetReason() == "") != (code == http.StatusServiceUnavailable) {
			t.Errorf("of %d: got %v", code, s)
		}
	}
}

// Usage never stands still: small changes wait, so that a quiet cluster pushes nothing for them.
func TestSmallChangesOfUsageWait(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	_, _, v := pushing(t, &now)
	v.nodes.put("n", node{name: "n", allocatable: amounts{cpu: 10_000, memory: 100 << 30}})
	v.takeUsage(cluster.Usage{Nodes: 1, CPU: 1000, Memory: 10 << 30})
	for _, step := range []struct {
		cpu, memory int64
		after       time.Duration
		news        bool
	}{
		{1400, 11 << 30, time.Minute, false},
		{1600, 11 << 30, time.Minute, true},
		{1600, 17 << 30, time.Minute, true},
		{1500, 17 << 30, time.Minute, false},
		{1500, 17 << 30, usedAfter, true},
		{1500, 17 << 30, usedAfter, false}, // the same
	} {
		now = now.Add(step.after)
		if news := v.takeUsage(cluster.Usage{Nodes: 1, CPU: step.cpu, Memory: step.memory}); news != step.news {
			t.Errorf("%+v: news %t", step, news)
		}
	}
	if !v.takeUsage(cluster.Usage{Nodes: 2, CPU: 1500, Memory: 17 << 30}) {
		t.Error("another node is no news")
	}
}

// What fails is asked for no more often than what works: it may cost the API server more.
func TestWhatCannotBeAskedForIsNotAskedForMoreOften(t *testing.T) {
	t.Parallel()
	// in an hour, of 60 and 12 with their spread
	for kind, most := range map[string]int{kindUsage: 75, kindRequested: 16} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			v := viewOf(t, func(r *http.Request) (*http.Response, error) {
				asked++
				return answerOf(r, http.StatusServiceUnavailable, "application/json",
					io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":503}`))), nil
			})
			var running sync.WaitGroup
			running.Go(func() { v.poll(ctx, v.kindOf(kind)) })
			time.Sleep(time.Hour) //nolint:forbidigo // of the bubble's clock
			cancel()
			running.Wait()
			if asked > most || asked < 6 {
				t.Errorf("%s: asked %d times in an hour", kind, asked)
			}
		})
	}
}

const someMetrics = `# HELP apiserver_requested_deprecated_apis [STABLE] Gauge of deprecated APIs that have been requested
# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="",removed_release="",resource="componentstatuses",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="policy",removed_release="1.25",resource="poddisruptionbudgets",subresource="",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="policy",removed_release="1.25",resource="poddisruptionbudgets",subresource="status",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="batch",removed_release="1.25",resource="cronjobs",subresource="",version="v1beta1"} 0
apiserver_requested_deprecated_apis_total 7
apiserver_requested_deprecated_apis{group="broken
`

func TestDeprecatedAPIsThatAnybodyRequestsAreListed(t *testing.T) {
	t.Parallel()
	s := sectionOf(t, polling(t, kindRequested, says(http.StatusOK, "text/plain", someMetrics)), clusterview.Deprecated)
	if s.GetFigures()["total"] != 2 || s.GetFigures()["applied"] != 0 || len(s.GetRows()) != 2 {
		t.Fatalf("got %v", s)
	}
	if r := s.GetRows()[0]; r.GetName() != "policy/v1beta1 poddisruptionbudgets" || r.GetVersion() != "1.25" ||
		r.GetReason() != "Requested" {
		t.Errorf("the first is %v", r)
	}
}

// A line that is too long is of no deprecated API: the others count.
func TestLongLinesOfTheMetricsAreLeftOut(t *testing.T) {
	t.Parallel()
	long := deprecatedLine("long", strings.Repeat("x", 1<<20))
	s := sectionOf(t, polling(t, kindRequested,
		says(http.StatusOK, "text/plain", long+someMetrics+long+strings.TrimSuffix(deprecatedLine("last", ""), "\n"))),
		clusterview.Deprecated)
	if s.GetFigures()["total"] != 3 {
		t.Errorf("got %v", s)
	}
}

// deprecatedLine is one of the metrics.
func deprecatedLine(resource, subresource string) string {
	return `apiserver_requested_deprecated_apis{group="example.org",removed_release="",resource="` + resource +
		`",subresource="` + subresource + `",version="v1"} 1` + "\n"
}

// Without metrics the figure is absent, not 0: others may request deprecated APIs.
func TestWithoutMetricsOfTheAPIServerRequestsAreUnknown(t *testing.T) {
	t.Parallel()
	s := sectionOf(t, polling(t, kindRequested,
		says(http.StatusNotFound, "application/json",
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)), clusterview.Deprecated)
	_, counted := s.GetFigures()["total"]
	if counted || s.GetState() != deliveryv1.SectionState_SECTION_STATE_WHOLE ||
		!strings.Contains(s.GetReason(), "has no /metrics") || !strings.Contains(s.GetReason(), "not known") {
		t.Errorf("got %v", s)
	}
}

// What the API server warns the agent of is known without its metrics, too.
func TestDeprecatedAPIsThatFairleadUsesAreKnown(t *testing.T) {
	t.Parallel()
	v := polling(t, kindRequested, func(r *http.Request) (*http.Response, error) {
		resp := answerOf(r, http.StatusForbidden, "application/json",
			io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)))
		for _, text := range []string{
			"policy/v1beta1 PodDisruptionBudget is deprecated in v1.21+, unavailable in v1.25+; use policy/v1 PodDisruptionBudget",
			"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
			"example.org/v1alpha1 Widget is deprecated", "unknown field \"spec.a\"",
		} {
			resp.Header.Add("Warning", `299 - "`+strings.ReplaceAll(text, `"`, `\"`)+`"`)
		}
		return resp, nil
	})
	s := sectionOf(t, v, clusterview.Deprecated)
	_, counted := s.GetFigures()["total"]
	if s.GetState() != deliveryv1.SectionState_SECTION_STATE_DENIED || counted || s.GetFigures()["applied"] != 3 {
		t.Errorf("got %v", s)
	}
	var names []string
	for _, r := range s.GetRows() {
		names = append(names, r.GetName()+" "+r.GetVersion())
	}
	if got := strings.Join(names,
		", "); got != "policy/v1beta1 poddisruptionbudgets 1.25, v1 endpoints , example.org/v1alpha1 widgets " {
		t.Errorf("listed %s", got)
	}
}

func TestEndsOfCredentialsAreSaidBeforeTheyCome(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	_, _, v := pushing(t, &now)
	day := 24 * time.Hour
	end := func(kind, name string, begin, ends time.Duration) End {
		return End{Kind: kind, Name: name, Begin: now.Add(begin), Ends: now.Add(ends)}
	}
	v.Ends = func() []End {
		return []End{
			end("Token", "fresh", -time.Hour, 23*time.Hour), end("Token", "old", -23*time.Hour, time.Hour),
			end("Certificate", "long", -day, 3649*day),
			end("Certificate", "near", -3600*day, 29*day), end("Certificate", "over", -360*day, -time.Second),
			end("Certificate", "short", -5*day, 2*day),
		}
	}
	if err := v.lookAtEnds(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := sectionOf(t, v, clusterview.Agent)
	if f := s.GetFigures(); f["credentials"] != 6 || f["end_soon"] != 2 || f["ended"] != 1 {
		t.Errorf("counted %v", f)
	}
	var got []string
	for _, r := range s.GetRows() {
		got = append(got, r.GetName()+" "+r.GetReason())
	}
	if all := strings.Join(got, ", "); all != "over Ended, old EndsSoon, short Valid, near EndsSoon, long Valid" {
		t.Errorf("listed %s", all)
	}
}

// A service's custom resource has an operator make pods: they are of the service, and so are its Jobs.
func TestPodsThatOperatorsMakeAreOfTheService(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	_, _, v := pushing(t, &now)
	asked := 0
	v.Services = func(uids map[string]string) {
		asked++
		if _, ok := uids["database"]; ok {
			uids["database"] = "shop"
		}
	}
	controls := true
	owned := func(uid, kind, owner string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			UID: types.UID("uid-" + uid), Name: uid, Namespace: "n",
			OwnerReferences: []metav1.OwnerReference{
				{Kind: kind, Name: owner, UID: types.UID(owner), Controller: &controls},
			},
		}
	}
	ready := corev1.PodStatus{Phase: "Running", Conditions: isTrue("Ready")}
	take := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := v.takeWorkload("StatefulSet",
		wire(t, &appsv1.StatefulSet{ObjectMeta: owned("set", "Database", "database")}), false)
	take(err)
	_, err = v.takePod(wire(t, &corev1.Pod{ObjectMeta: owned("pod", "StatefulSet", "uid-set"), Status: ready}), false)
	take(err)
	_, err = v.takePod(wire(t, &corev1.Pod{ObjectMeta: owned("mirror", "Node", "node"), Status: ready}), false)
	take(err)
	_, err = v.takeWorkload("Job",
		wire(t, &batchv1.Job{
			ObjectMeta: owned("backup", "Database", "database"),
			Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: "Failed", Status: "True"}}},
		}), false)
	take(err)
	sectionOf(t, v, clusterview.Services) // meets the owners
	s := sectionOf(t, v, clusterview.Services)
	if len(s.GetRows()) != 1 || s.GetRows()[0].GetService() != "shop" {
		t.Fatalf("got %v", s)
	}
	if f := s.GetRows()[0].GetFigures(); f["pods"] != 1 || f["ready"] != 1 || f["jobs"] != 1 || f["jobs_failed"] != 1 {
		t.Errorf("counted %v", f)
	}
	for range 10 {
		sectionOf(t, v, clusterview.Services)
	}
	if asked != 1 {
		t.Errorf("asked %d times for the same owners", asked)
	}
	now = now.Add(2 * ownersFor)
	if sectionOf(t, v, clusterview.Services); asked != 2 {
		t.Errorf("asked %d times; owners may have changed hands", asked)
	}
	now = now.Add(2 * ownersKept)
	for look := range 3 { // owners that are still met keep their answers while the others are forgotten
		if s := sectionOf(t, v, clusterview.Services); len(s.GetRows()) != 1 || s.GetRows()[0].GetFigures()["pods"] != 1 {
			t.Fatalf("look %d after %v: got %v", look, 2*ownersKept, s)
		}
	}
	for _, gone := range []string{"uid-pod", "uid-mirror"} {
		v.pods.remove(gone)
	}
	for _, kind := range []string{"Job", "StatefulSet"} {
		v.workloads[kind].clear()
	}
	for range 3 { // the first one forgets what was met before
		now = now.Add(2 * ownersKept)
		sectionOf(t, v, clusterview.Services)
	}
	if n := len(v.owners.services); n != 0 {
		t.Errorf("%d owners of nothing are remembered", n)
	}
}

// An API server whose metrics hang does not keep the view from beginning.
func TestTheViewBeginsWithoutWhatIsSpare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		v := viewOf(t, func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "metrics") {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return answerOf(r, http.StatusForbidden, "application/json",
				io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))), nil
		})
		var running sync.WaitGroup
		running.Go(func() { _ = v.Run(ctx) })
		synctest.Wait()
		if _, ok := v.Sections(); ok {
			t.Error("the view does not wait at all")
		}
		time.Sleep(spareWait) //nolint:forbidigo // of the bubble's clock
		synctest.Wait()
		select {
		case <-v.Changed():
		default:
			t.Error("nothing says that the view has begun")
		}
		if s := sectionOf(t, v, clusterview.Used); s.GetState() != deliveryv1.SectionState_SECTION_STATE_READING ||
			s.GetFigures() != nil {
			t.Errorf("got %v", s)
		}
		cancel()
		running.Wait()
	})
}
