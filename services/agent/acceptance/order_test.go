package acceptance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
)

const stuckDeployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: db, annotations: {fairlead.dev/timeout: 5s}}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {nodeSelector: {none: such}, containers: [{name: c, image: pause}]}}}\n"

// pushSynced is push of a service that says how it is kept applied.
func (h *testHub) pushSynced(t *testing.T, service, namespace string, files map[string]string,
	spec *deliveryv1.SyncSpec,
) string {
	t.Helper()
	h.mu.Lock()
	before := h.services[service]
	if before == nil {
		before = &deliveryv1.ServiceDelivery{Name: service}
	}
	before = proto.CloneOf(before)
	before.Sync = spec
	h.services[service] = before
	h.mu.Unlock()
	return h.push(t, service, namespace, files)
}

// annotated is a ConfigMap with annotations, as "key: value, key: value".
func annotated(name, value, annotations string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, annotations: {%s}}\ndata: {x: %q}\n", name, annotations, value)
}

// job never ends by itself here: no controller runs it to its end before end does.
func job(name, annotations string) string {
	return fmt.Sprintf(`---
apiVersion: batch/v1
kind: Job
metadata: {name: %s, annotations: {%s}}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: pause}]}}}
`, name, annotations)
}

func kubectl(w *world, stdin string, args ...string) {
	w.t.Helper()
	if _, err := kube.Cluster(w.t).Kubectl(w.t.Context(), stdin,
		append([]string{"-n", w.namespace}, args...)...); err != nil {
		w.t.Fatal(err)
	}
}

// end makes a job complete, or fail, as its controller would.
func (w *world) end(name, condition string) {
	w.t.Helper()
	await.True(w.t, "job "+name+" is there", func() bool {
		found, err := w.get("batch/v1", "Job", w.namespace, name)
		if err != nil {
			return false
		}
		// a job that end has ended is made anew
		_, started, _ := unstructured.NestedFieldNoCopy(found.Object, "status", "startTime")
		return found.GetDeletionTimestamp() == nil && !started
	})
	now := time.Now().UTC().Format(time.RFC3339)
	before, more := "SuccessCriteriaMet", fmt.Sprintf(`"completionTime":%q,"succeeded":1,`, now)
	if condition == "Failed" {
		before, more = "FailureTarget", ""
	}
	kubectl(w, "", "patch", "job", name, "--subresource=status", "--type=merge", fmt.Sprintf(
		`-p={"status":{%s"startTime":%q,"conditions":[{"type":%q,"status":"True","lastTransitionTime":%q},{"type":%q,"status":"True","lastTransitionTime":%q,"message":"the test says so"}]}}`, more, now, before, now, condition, now))
}

// Objects that were applied before a hook failed are listed, so that people see them without the cluster.
func TestObjectsAreListedAfterAHookThatFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hooked")
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1"), "b.yaml": job("after", "fairlead.dev/hook: post-sync"),
	})
	w.end("after", "Failed")
	w.hub.awaitPhase(t, name, digest, deliveryv1.Phase_PHASE_FAILED)
	detail := w.hub.awaitDetail(t, name, func(d *deliveryv1.ServiceDetail) bool { return d.GetObjects() != nil })
	listed := detail.GetObjects().GetObjects()
	if !slices.ContainsFunc(listed,
		func(o *deliveryv1.ManagedObject) bool { return o.GetName() == "a" && o.GetUid() != "" }) {
		t.Errorf("got %v", listed)
	}
}

// sent lists the names of objects that were changed, in that order: dry runs and the inventory are left out.
func (w *world) sent() []string {
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	var names []string
	for _, line := range w.api.requests {
		method, path, _ := strings.Cut(line, " ")
		// its own is made once
		inventory := strings.Contains(path, "/namespaces/fairlead-system/") ||
			method == http.MethodPost && strings.HasSuffix(path, "/namespaces")
		if method == http.MethodGet || strings.Contains(path, "?dryRun") || inventory {
			continue
		}
		names = append(names, path[strings.LastIndexByte(path, '/')+1:])
	}
	return names
}

func (w *world) forget() {
	w.t.Helper()
	w.viewed()
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	w.api.requests = nil
}

// viewed waits until the agent that was started last has pushed its view: the requests that a view begins with were
// made then.
func (w *world) viewed() {
	w.t.Helper()
	if w.working != nil && w.working.Load() && !w.elects {
		await.True(w.t, "the agent pushes its view", func() bool { return w.hub.viewedSince(w.began) })
	}
}

func TestNothingChangedSendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("quiet")
	files := map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	w.forget()
	// Another digest of the same manifests; then a restart, and yet another.
	files["README.md"] = "one"
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	stop()
	w.start()
	files["README.md"] = "two"
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	if sent := w.sent(); len(sent) > 0 {
		t.Errorf("sent: %v", sent)
	}
}

func TestOnlyTheChangedObjectIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("one")
	files := map[string]string{
		"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1"),
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	w.forget()
	files["b.yaml"] = configMap("b", "2")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	if sent := w.sent(); !slices.Equal(sent, []string{"b"}) {
		t.Errorf("sent: %v, want b", sent)
	}
	w.mustData("b", "2")
}

func TestWavesAndDependsOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("waves")
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"all.yaml": annotated("late", "1", `fairlead.dev/wave: "2"`) +
			annotated("early", "1", `argocd.argoproj.io/sync-wave: "-1"`) + annotated("usual", "1", "") +
			annotated("after", "1", fmt.Sprintf("fairlead.dev/depends-on: ConfigMap/%s/usual", w.namespace)),
	})
	w.hub.awaitPhase(t, name, digest, healthy)
	if sent := w.sent(); !slices.Equal(sent, []string{"early", "usual", "after", "late"}) {
		t.Errorf("sent in the order %v", sent)
	}
}

// A claim that gets its volume with its first pod does not keep the wave of that pod from coming.
func TestAWaveDoesNotWaitForAClaimWithoutAPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("claims")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"class.yaml": "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: " + name + "}\n" +
			"provisioner: harbour.dev/none\nvolumeBindingMode: WaitForFirstConsumer\n",
		"claim.yaml": "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: " +
			"[ReadWriteOnce], storageClassName: " + name + ", resources: {requests: {storage: 1Mi}}}\n",
		"later.yaml": annotated("later", "1", `fairlead.dev/wave: "1"`),
	}), healthy)
	w.mustData("later", "1")
}

// A gate that nothing will ever open holds up neither other services nor the next revision.
func TestGateHoldsNoWorkerAndEndsWithANewRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	stuck := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: NAME}\nspec: {selector: {matchLabels: {a: NAME}}, template: {metadata: {labels: {a: NAME}}, spec: {nodeSelector: {none: such}, containers: [{name: c, image: pause}]}}}\n"
	var names, digests []string
	for i := range 8 { // more than there are workers
		name := w.service(fmt.Sprint("stuck", i))
		names = append(names, name)
		digests = append(digests, w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": strings.ReplaceAll(stuck, "NAME", fmt.Sprint("web", i)),
			"b.yaml": annotated(fmt.Sprint("late", i), "1", `fairlead.dev/wave: "1"`),
		}))
	}
	for i, name := range names {
		report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
			return r.GetDigest() == digests[i] && r.GetPhase() == applying && r.GetMessage() != ""
		})
		if want := fmt.Sprintf("1 of 2 objects are applied. Deployment %s/web%d is not healthy yet", w.namespace,
			i); !strings.HasPrefix(report.GetMessage(), want) {
			t.Errorf("got %s, want %s", report.GetMessage(), want)
		}
	}
	free := w.service("free")
	w.hub.awaitPhase(t, free, w.hub.push(t, free, w.namespace, map[string]string{"a.yaml": configMap("free", "1")}),
		healthy)
	w.mustBeGone("v1", "ConfigMap", w.namespace, "late0")
	w.hub.awaitPhase(t, names[0],
		w.hub.push(t, names[0], w.namespace, map[string]string{"b.yaml": configMap("late0", "2")}), healthy)
	w.mustData("late0", "2")
}

func TestHookThatTakesTooLongIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("slow")
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"all.yaml": job("never", "fairlead.dev/hook: pre-sync, fairlead.dev/timeout: 500ms") +
			annotated("after", "1", ""),
	})
	report := w.hub.awaitPhase(t, name, digest, failed)
	if want := "Job " + w.namespace +
		"/never (apps/hello/all.yaml, document 1): the hook did not end within 500ms. "; !strings.HasPrefix(report.GetMessage(), want) {
		t.Errorf("got %s, want %s", report.GetMessage(), want)
	}
	w.mustBeGone("v1", "ConfigMap", w.namespace, "after")
}

func TestCustomResourceWithinASecondOfItsCRD(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, group := w.service("kind"), w.namespace+".io"
	var mu sync.Mutex
	var times []time.Time
	w.api.set(func(r *http.Request) int {
		if r.Method == http.MethodPatch &&
			(strings.HasSuffix(r.URL.Path, "/rafts."+group) || strings.HasSuffix(r.URL.Path, "/rafts/first")) {
			mu.Lock()
			defer mu.Unlock()
			times = append(times, time.Now())
		}
		return 0
	})
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": raft(group, "first"), "b.yaml": crd(group)}),
		healthy)
	mu.Lock()
	defer mu.Unlock()
	// On a busy machine it may be slower; nothing here waits for a second on purpose, and a poll of 5 s would show.
	if took := times[len(times)-1].Sub(times[0]); len(times) < 2 || took > 10*time.Second {
		t.Errorf("%d requests, the last after %s", len(times), took)
	} else {
		t.Logf("the object came %s after its kind", took)
	}
}

func TestHooksOfArgoAndHelm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	for _, test := range []struct {
		name, before, after string
		gone                []string
	}{
		{
			"ours", "fairlead.dev/hook: pre-sync, fairlead.dev/hook-delete: succeeded", "fairlead.dev/hook: post-sync",
			[]string{"before"},
		},
		{
			"argo", "argocd.argoproj.io/hook: PreSync",
			"argocd.argoproj.io/hook: PostSync, argocd.argoproj.io/hook-delete-policy: HookSucceeded",
			[]string{"after"},
		},
		{
			"helm", `helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-weight: "-5"`,
			`helm.sh/hook: "post-install,post-upgrade", helm.sh/hook-delete-policy: hook-succeeded`,
			[]string{"after"},
		},
	} {
		service := w.service(test.name)
		before, config, after := test.name+"-before", test.name+"-config", test.name+"-after"
		files := map[string]string{
			"all.yaml": annotated(config, "1", "") + job(before, test.before) + job(after, test.after) +
				job(test.name+"-test", "helm.sh/hook: test"),
		}
		digest := w.hub.push(t, service, w.namespace, files)
		w.end(before, "Complete")
		await.True(w.t, config, func() bool { _, err := w.get("v1", "ConfigMap", w.namespace, config); return err == nil })
		w.end(after, "Complete")
		w.hub.awaitPhase(t, service, digest, healthy)
		for _, name := range test.gone {
			await.True(w.t, "the hook goes",
				func() bool { _, err := w.get("batch/v1", "Job", w.namespace, test.name+"-"+name); return err != nil })
		}
		w.mustBeGone("batch/v1", "Job", w.namespace, test.name+"-test")
		// Another digest runs them again, and makes what is still there anew.
		files["b.yaml"] = configMap(test.name+"-b", "1")
		digest = w.hub.push(t, service, w.namespace, files)
		await.True(w.t, "the first hook is made anew", func() bool {
			found, err := w.get("batch/v1", "Job", w.namespace, before)
			return err == nil && strings.HasPrefix(found.GetAnnotations()["fairlead.dev/hook-run"], digest+"@")
		})
		w.end(before, "Complete")
		await.True(w.t, "the second hook is made anew", func() bool {
			found, err := w.get("batch/v1", "Job", w.namespace, after)
			return err == nil && strings.HasPrefix(found.GetAnnotations()["fairlead.dev/hook-run"], digest+"@")
		})
		w.end(after, "Complete")
		w.hub.awaitPhase(t, service, digest, healthy)
		w.hub.remove(service)
		w.hub.await(t, service, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
		for _, name := range []string{before, after} {
			w.mustBeGone("batch/v1", "Job", w.namespace, name)
		}
	}
}

// A chart may have several hooks of one name, at one moment or at several: each runs once, one after the other.
func TestHooksMayShareAName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kill := w.process()
	name := w.service("hooked")
	const gone = ", helm.sh/hook-delete-policy: hook-succeeded"
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"all.yaml": job("migrate", "step: one, helm.sh/hook: pre-install"+gone) +
			job("migrate", "step: two, helm.sh/hook: pre-install") +
			job("migrate", "step: three, helm.sh/hook: post-install") + annotated("config", "1", ""),
	})
	uids := map[types.UID]bool{}
	for i, step := range []string{"one", "two", "three"} {
		var found *unstructured.Unstructured
		await.True(w.t, "hook "+step, func() bool {
			var err error
			found, err = w.get("batch/v1", "Job", w.namespace, "migrate")
			return err == nil && found.GetAnnotations()["step"] == step && found.GetDeletionTimestamp() == nil
		})
		uids[found.GetUID()] = true
		if _, err := w.get("v1", "ConfigMap", w.namespace, "config"); (err == nil) != (i == 2) {
			t.Errorf("at hook %s the service's object is there: %t", step, err == nil)
		}
		if step == "two" { // an agent that goes on here takes none for another
			kill()
			w.process()
		}
		w.end("migrate", "Complete")
	}
	w.hub.awaitPhase(t, name, digest, healthy)
	if made := w.api.patches("/jobs/migrate"); made != 3 || len(uids) != 3 {
		t.Errorf("%d hooks were made, as %d objects", made, len(uids))
	}
	entries := slices.DeleteFunc(w.record(name).Entries,
		func(entry inventory.Entry) bool { return entry.Name != "migrate" })
	if len(entries) != 1 || !uids[entries[0].UID] {
		t.Errorf("the inventory has %+v", entries)
	}
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.mustBeGone("batch/v1", "Job", w.namespace, "migrate")
}

// A hook of two moments is run at both: once for each, whoever is killed in between.
func TestHookOfTwoMomentsIsRunAtBoth(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]string{
		"ours": `fairlead.dev/hook: "pre-sync,post-sync"`, "Helm": `helm.sh/hook: "pre-install,post-install"`,
		"Argo CD": "argocd.argoproj.io/hook: \"PreSync,PostSync\"",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			kill := w.process()
			name := w.service("hooked")
			digest := w.hub.push(t, name, w.namespace, map[string]string{
				"all.yaml": job("check", hook) + annotated("config", "1", ""),
			})
			uids := map[types.UID]bool{}
			for _, after := range []bool{false, true} {
				await.True(w.t, "the hook's next object", func() bool {
					found, err := w.get("batch/v1", "Job", w.namespace, "check")
					if err != nil || found.GetDeletionTimestamp() != nil || uids[found.GetUID()] {
						return false
					}
					uids[found.GetUID()] = true
					return true
				})
				if _, err := w.get("v1", "ConfigMap", w.namespace, "config"); (err == nil) != after {
					t.Errorf("the service's object is there: %t, want %t", err == nil, after)
				}
				kill()
				kill = w.process()
				w.end("check", "Complete")
			}
			w.hub.awaitPhase(t, name, digest, healthy)
			if made := w.api.patches("/jobs/check"); made != 2 {
				t.Errorf("%d hooks were made, want 2", made)
			}
		})
	}
}

func TestFailedHookStopsTheSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hooked")
	files := map[string]string{
		"all.yaml": annotated("config", "1", "") + job("check", "fairlead.dev/hook: pre-sync") +
			annotated("sorry", "1", "fairlead.dev/hook: sync-fail"),
	}
	digest := w.hub.push(t, name, w.namespace, files)
	w.end("check", "Failed")
	report := w.hub.awaitPhase(t, name, digest, failed)
	if want := "Job " + w.namespace +
		"/check (apps/hello/all.yaml, document 2): the hook failed: the test says so. "; !strings.HasPrefix(report.GetMessage(), want) {
		t.Errorf("got %s, want %s", report.GetMessage(), want)
	}
	w.mustBeGone("v1", "ConfigMap", w.namespace, "config")
	if _, err := w.get("v1", "ConfigMap", w.namespace, "sorry"); err != nil {
		t.Errorf("the hook for failures was not run: %v", err)
	}
	files["all.yaml"] = annotated("config", "1", "")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	w.mustBeGone("batch/v1", "Job", w.namespace, "check")
}

// No wait makes a Job healthy that has failed for good.
func TestAWaveDoesNotWaitForAJobThatHasFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("waves")
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"all.yaml": job("migrate", "a: b") + annotated("config", "1", `fairlead.dev/wave: "1"`),
	})
	w.end("migrate", "Failed")
	report := w.hub.awaitPhase(t, name, digest, failed)
	want := "Job " + w.namespace + "/migrate has failed (the test says so)"
	if !strings.HasPrefix(report.GetMessage(), want) {
		t.Errorf("got %s, want %s", report.GetMessage(), want)
	}
	w.mustBeGone("v1", "ConfigMap", w.namespace, "config")
}

// A hook that its policy deleted when it failed is not run by the next agent either.
func TestAFailedHookIsNotRunByTheNextAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("hooked")
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"all.yaml": annotated("config", "1", "") +
			job("check", "fairlead.dev/hook: pre-sync, fairlead.dev/hook-delete: failed"),
	})
	w.end("check", "Failed")
	w.hub.awaitPhase(t, name, digest, failed)
	w.leaves("batch/v1", "Job", "check")
	stop()
	w.start()
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == digest && strings.Contains(r.GetMessage(), "the hook failed before, and its object is gone")
	})
	if made := w.api.patches("/jobs/check"); made != 1 {
		t.Errorf("the hook was made %d times", made)
	}
}

func TestObjectOfAFailedHookGoesWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hooked")
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"all.yaml": annotated("config", "1", "") + job("check", "fairlead.dev/hook: pre-sync"),
	})
	w.end("check", "Failed")
	w.hub.awaitPhase(t, name, digest, failed)
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": annotated("config", "1", "")}), healthy)
	w.mustBeGone("batch/v1", "Job", w.namespace, "check")
}

// A namespace or somebody's data is not deleted to make a hook anew, as a Job is.
func TestHooksThatAreNoJobsStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, namespace := w.service("hooked"), w.namespace+"-hook"
	kubectl(w, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs}\ndata: {precious: \"1\"}\n", "create",
		"-f", "-")
	theirs, err := w.get("v1", "ConfigMap", w.namespace, "theirs")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"all.yaml": annotated("config", "1", "") + annotated("theirs", "1", "helm.sh/hook: pre-install") +
			"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " + namespace +
			", annotations: {helm.sh/hook: pre-install, helm.sh/hook-delete-policy: hook-succeeded}}\n",
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	first, err := w.get("v1", "Namespace", "", namespace)
	if err != nil || first.GetDeletionTimestamp() != nil {
		t.Fatalf("the namespace is not there: %v", err)
	}
	if after, err := w.get("v1", "ConfigMap", w.namespace, "theirs"); err != nil || after.GetUID() != theirs.GetUID() {
		t.Errorf("what somebody had was deleted: %v", err)
	}
	files["b.yaml"] = configMap("b", "1")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	if again, err := w.get("v1", "Namespace", "", namespace); err != nil || again.GetUID() != first.GetUID() ||
		again.GetDeletionTimestamp() != nil {
		t.Errorf("the namespace was deleted, and all in it: %v", err)
	}
}

// An agent that is killed while a hook runs, or after it has, does not run it twice.
func TestKilledAgentRunsNoHookTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kill := w.process()
	name := w.service("hooked")
	files := map[string]string{
		"all.yaml": job("first", "fairlead.dev/hook: pre-sync, fairlead.dev/hook-delete: succeeded") +
			job("second", `fairlead.dev/hook: pre-sync, fairlead.dev/wave: "1"`) + annotated("config", "1", ""),
	}
	digest := w.hub.push(t, name, w.namespace, files)
	w.end("first", "Complete")
	await.True(w.t, "the second hook",
		func() bool { _, err := w.get("batch/v1", "Job", w.namespace, "second"); return err == nil })
	running, err := w.get("batch/v1", "Job", w.namespace, "second")
	if err != nil {
		t.Fatal(err)
	}
	kill()
	reached := w.api.stallOn("DELETE", "/jobs/first")
	kill = w.process()
	w.end("second", "Complete")
	waitFor(t, reached, "the deletion of the first hook")
	kill()
	w.api.set(nil)
	w.process()
	w.hub.awaitPhase(t, name, digest, healthy)
	after, err := w.get("batch/v1", "Job", w.namespace, "second")
	if err != nil || after.GetUID() != running.GetUID() {
		t.Errorf("the second hook was run twice: %v", err)
	}
	w.mustBeGone("batch/v1", "Job", w.namespace, "first")
	if first := w.api.patches("/jobs/first"); first != 1 {
		t.Errorf("the first hook was made %d times", first)
	}
}

func TestAdoptionPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	for _, name := range []string{"plain", "never", "ofhelm", "always", "byannotation"} {
		kubectl(w, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+
			", labels: {app.kubernetes.io/managed-by: Helm}, annotations: {"+
			map[bool]string{
				true: "meta.helm.sh/release-name: web, meta.helm.sh/release-namespace: shop",
			}[name != "plain" && name != "never"]+"}}\ndata: {x: \"0\", old: \"0\"}\n", "apply", "-f", "-")
	}
	for _, test := range []struct {
		name, annotations string
		spec              deliveryv1.Adoption
		refused           string
	}{
		{name: "plain"},
		{
			name: "never", spec: deliveryv1.Adoption_ADOPTION_NEVER,
			refused: "it is in the cluster already, and must not be taken over",
		},
		{name: "ofhelm", refused: "it belongs to Helm release shop/web"},
		{name: "always", spec: deliveryv1.Adoption_ADOPTION_ALWAYS},
		{name: "byannotation", annotations: "fairlead.dev/adopt: always"},
	} {
		service := w.service(test.name)
		digest := w.hub.pushSynced(t, service, w.namespace,
			map[string]string{
				"a.yaml": annotated(test.name, "1", test.annotations),
			}, &deliveryv1.SyncSpec{Adoption: test.spec})
		if test.refused == "" {
			w.hub.awaitPhase(t, service, digest, healthy)
			w.mustData(test.name, "1")
			continue
		}
		report := w.hub.awaitPhase(t, service, digest, failed)
		if want := "ConfigMap " + w.namespace + "/" + test.name + " (apps/hello/a.yaml, document 1): " +
			test.refused; !strings.HasPrefix(report.GetMessage(), want) {
			t.Errorf("%s: got %s, want %s", test.name, report.GetMessage(), want)
		}
		w.mustData(test.name, "0")
	}
}

// A field that kubectl, Helm or Flux wrote goes when it is not in Git.
func TestFieldsOfKubectlHelmAndFluxMigrate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	const old = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {x: \"0\", NAME: old}\n"
	kubectl(w, strings.ReplaceAll(old, "NAME", "kubectl"), "apply", "-f", "-")
	for manager, name := range map[string]string{"kubectl": "ssa", "helm": "helm", "kustomize-controller": "flux"} {
		kubectl(w, strings.ReplaceAll(old, "NAME",
			name), "apply", "--server-side", "--field-manager="+manager, "-f", "-")
	}
	kubectl(w, strings.ReplaceAll(old, "NAME", "people"), "create", "--field-manager=somebody", "-f", "-")
	files := map[string]string{}
	names := []string{"kubectl", "ssa", "helm", "flux", "people"}
	for _, name := range names {
		files[name+".yaml"] = configMap(name, "1")
	}
	service := w.service("adopting")
	w.hub.awaitPhase(t, service, w.hub.push(t, service, w.namespace, files), healthy)
	for _, name := range names {
		obj, err := w.get("v1", "ConfigMap", w.namespace, name)
		if err != nil {
			t.Fatal(err)
		}
		data, _, _ := unstructured.NestedStringMap(obj.Object, "data")
		if _, stays := data[name]; stays != (name == "people") || data["x"] != "1" {
			t.Errorf("%s: %v", name, data)
		}
		if _, ok := obj.GetAnnotations()["kubectl.kubernetes.io/last-applied-configuration"]; ok {
			t.Errorf("%s: kubectl's annotation is still there", name)
		}
	}
}

func TestRecreateOnlyWhereAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("web")
	files := func(selector, annotations string) map[string]string {
		return map[string]string{
			"web.yaml": strings.ReplaceAll("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: {"+annotations+
				"}}\nspec: {selector: {matchLabels: {app: SEL}}, template: {metadata: {labels: {app: SEL}}, spec: {containers: [{name: c, image: pause}]}}}\n", "SEL", selector), "b.yaml": configMap("b", selector),
		}
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files("one", "")), healthy)
	before, err := w.get("apps/v1", "Deployment", w.namespace, "web")
	if err != nil {
		t.Fatal(err)
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files("two", "")), failed)
	w.mustData("b", "one")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files("two", "fairlead.dev/recreate: allowed")), healthy)
	after, err := w.get("apps/v1", "Deployment", w.namespace, "web")
	if err != nil || after.GetUID() == before.GetUID() || object.Owner(after) != name {
		t.Errorf("it was not made anew: %v", err)
	}
	w.mustData("b", "two")
}

func TestIgnoredFieldsAreLeftToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("web")
	files := func(value string) map[string]string {
		return map[string]string{
			"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {fairlead.dev/ignore: /data/theirs}}\ndata: {x: \"" + value + "\", theirs: git, both: git}\n",
		}
	}
	spec := &deliveryv1.SyncSpec{
		Ignore: []*deliveryv1.IgnoreRule{{Kind: "ConfigMap", Pointers: []string{"/data/both"}}},
	}
	w.hub.awaitPhase(t, name, w.hub.pushSynced(t, name, w.namespace, files("1"), spec), healthy)
	kubectl(w, "", "patch", "configmap", "a", `-p={"data":{"theirs":"people"}}`)
	w.hub.awaitPhase(t, name, w.hub.pushSynced(t, name, w.namespace, files("2"), spec), healthy)
	obj, err := w.get("v1", "ConfigMap", w.namespace, "a")
	if err != nil {
		t.Fatal(err)
	}
	if data, _, _ := unstructured.NestedStringMap(obj.Object,
		"data"); data["x"] != "2" || data["theirs"] != "people" || data["both"] != "git" {
		t.Errorf("got %v", data)
	}
}

func TestHeldObjectIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("held")
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": annotated("a", "1", ""), "b.yaml": configMap("b", "1"),
		}), healthy)
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": annotated("a", "2", "fairlead.dev/hold: incident 7"), "b.yaml": configMap("b", "2"),
		}), healthy)
	w.mustData("a", "1")
	w.mustData("b", "2")
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": annotated("a", "3", ""), "b.yaml": configMap("b", "3"),
		}), healthy)
	w.mustData("a", "3")
}

func TestTwoNewServicesClaimOneObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{w.service("one"), w.service("two")}
	var digests []string
	for _, name := range names {
		digests = append(digests,
			w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("shared", name)}))
	}
	w.start()
	var won, lost []string
	for i, name := range names {
		report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
			return r.GetDigest() == digests[i] && (r.GetPhase() == healthy || r.GetPhase() == failed)
		})
		if report.GetPhase() == healthy {
			won = append(won, name)
		} else {
			lost = append(lost, report.GetMessage())
		}
	}
	if len(won) != 1 || len(lost) != 1 || !strings.Contains(lost[0], fmt.Sprintf("it belongs to service %q", won[0])) {
		t.Fatalf("won: %v, lost: %v", won, lost)
	}
	w.mustData("shared", won[0])
}

// progressed: a digest is applied, healthy or not.
func progressed(digest string) func(*deliveryv1.ServiceReport) bool {
	return func(r *deliveryv1.ServiceReport) bool { return r.GetAppliedDigest() == digest }
}
