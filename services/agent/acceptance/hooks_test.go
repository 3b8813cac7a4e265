package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/inventory"
)

// neverHealthy is one that never becomes healthy.
const neverHealthy = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: stuck}\nspec: {selector: {matchLabels: {a: stuck}}, template: {metadata: {labels: {a: stuck}}, spec: {nodeSelector: {none: such}, containers: [{name: c, image: pause}]}}}\n"

// secret is a Secret with annotations, as "key: value, key: value".
func secret(name, value, annotations string) string {
	return strings.Replace(strings.Replace(annotated(name, value, annotations), "ConfigMap", "Secret", 1), "\ndata:",
		"\nstringData:", 1)
}

// found waits for an object.
func (w *world) found(apiVersion, kind, name string) *unstructured.Unstructured {
	w.t.Helper()
	var obj *unstructured.Unstructured
	await.True(w.t, kind+" "+name+" is there", func() bool {
		var err error
		obj, err = w.get(apiVersion, kind, w.namespace, name)
		return err == nil && obj.GetDeletionTimestamp() == nil
	})
	return obj
}

// awaitAnotherJob waits for another Job of the name.
func (w *world) awaitAnotherJob(name string, before types.UID) {
	w.t.Helper()
	await.True(w.t, "Job "+name+" is made anew", func() bool {
		obj, err := w.get("batch/v1", "Job", w.namespace, name)
		return err == nil && obj.GetDeletionTimestamp() == nil && obj.GetUID() != before
	})
}

// emptyDisk has the next agent join the cluster as if there had been none.
func (w *world) emptyDisk() {
	w.data = w.t.TempDir()
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.joined = false
}

// leaves waits until an object is gone.
func (w *world) leaves(apiVersion, kind, name string) {
	w.t.Helper()
	await.True(w.t, kind+" "+name+" goes", func() bool {
		_, err := w.get(apiVersion, kind, w.namespace, name)
		return apierrors.IsNotFound(err)
	})
}

// Install hooks run until the first revision is applied completely, upgrade hooks at those after it: a Secret that is
// random stays.
func TestInstallHooksAreNoUpgradeHooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("phases")
	text := func(value string) string {
		return secret("key", value, "helm.sh/hook: pre-install") + annotated("config", value, "") +
			job("before", "helm.sh/hook: pre-upgrade") + job("first", "helm.sh/hook: post-install") +
			job("later", "helm.sh/hook: post-upgrade")
	}
	digest := w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": text("0")})
	w.end("first", "Failed")
	w.hub.awaitPhase(t, name, digest, failed)
	failedJob, key := w.found("batch/v1", "Job", "first"), w.found("v1", "Secret", "key")
	// No revision is installed yet, so that this is no upgrade.
	digest = w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": text("1")})
	w.awaitAnotherJob("first", failedJob.GetUID())
	w.end("first", "Complete")
	w.hub.awaitPhase(t, name, digest, healthy)
	w.mustBeGone("batch/v1", "Job", w.namespace, "before")
	w.mustBeGone("batch/v1", "Job", w.namespace, "later")
	first := w.found("batch/v1", "Job", "first")
	stop()
	w.emptyDisk()
	w.start()
	digest = w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": text("2")})
	w.end("before", "Complete")
	w.end("later", "Complete")
	w.hub.awaitPhase(t, name, digest, healthy)
	w.mustData("config", "2")
	if after := w.found("v1", "Secret", "key"); after.GetUID() != key.GetUID() ||
		after.GetResourceVersion() != key.GetResourceVersion() {
		t.Error("the Secret of the installation was changed by its second attempt or an upgrade")
	}
	if after := w.found("batch/v1", "Job", "first"); after.GetUID() != first.GetUID() {
		t.Error("the hook of the installation ran at an upgrade")
	}
	// The Secret is not even rendered now: what it was made for still needs it.
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": annotated("config", "3", "")}), healthy)
	w.found("v1", "Secret", "key")
	w.mustBeGone("batch/v1", "Job", w.namespace, "first")
	w.hub.remove(name)
	w.hub.await(t, name, gone)
	w.mustBeGone("v1", "Secret", w.namespace, "key")
}

// A chart sees in .Release which hooks run, the same at every retry and on every disk.
func TestReleaseSaysWhetherItIsAnUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("chart")
	files := func(version string) map[string]string {
		return map[string]string{
			"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
			"templates/a.yaml": annotated("a",
				"{{ .Release.IsInstall }} {{ .Release.IsUpgrade }} {{ .Release.Revision }}", "version: v"+version),
			"templates/tests/t.yaml": annotated("ordinary", "1", "") + annotated("test", "1", "helm.sh/hook: test"),
		}
	}
	broken := files("0")
	broken["templates/b.yaml"] = `{{ fail "not yet" }}`
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, broken), failed)
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files("1")), healthy)
	w.mustData("a", "true false 1")
	w.mustData("ordinary", "1") // the name of its folder does not matter
	w.mustBeGone("v1", "ConfigMap", w.namespace, "test")
	stop()
	w.emptyDisk()
	stop = w.start()
	kubectl(w, "", "delete", "configmap", "a")
	w.found("v1", "ConfigMap", "a")
	w.mustData("a", "true false 1")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files("2")), healthy)
	w.mustData("a", "false true 2")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files("3")), healthy)
	w.mustData("a", "false true 3")
	// An agent that did not count has applied it: it is installed.
	stop()
	head, err := w.cluster.ConfigMaps(inventory.Namespace).Get(t.Context(), "inventory."+name, getOptions)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := unstructured.NestedString(head.Object, "data", "state")
	var state map[string]any
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		t.Fatal(err)
	}
	delete(state, "release")
	data, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]any{"state": string(data)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kube.Cluster(t).Kubectl(t.Context(), "", "-n", inventory.Namespace, "patch", "configmap",
		"inventory."+name, "--type=merge", "-p="+string(patch)); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files("4")), healthy)
	w.mustData("a", "false true 2")
}

// The objects that a hook needs stay until all hooks of the moment have ended, and go in the reverse order.
func TestHooksOfHelmGoWhenAllHaveEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("rbac")
	const hook = `helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded"`
	text := "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: setup, annotations: {" + hook + "}}\n" +
		"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: setup, annotations: {" + hook +
		"}}\nrules: []\n" +
		// A claim that waits for its first consumer is not waited for.
		"---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, annotations: {helm.sh/hook: pre-install}}\nspec: {storageClassName: none-such, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"all.yaml": job("setup", hook) + "---\n" + text + annotated("config", "1", ""),
	})
	w.found("batch/v1", "Job", "setup")
	w.found("v1", "ServiceAccount", "setup")
	w.found("rbac.authorization.k8s.io/v1", "Role", "setup")
	w.end("setup", "Complete")
	w.hub.awaitPhase(t, name, digest, healthy)
	if sent, want := strings.Join(w.sent(), " "), "data setup setup setup setup setup setup config"; sent != want {
		t.Errorf("sent: %s, want %s", sent, want)
	}
	var deleted []string
	for _, line := range w.api.since(0) {
		if path, ok := strings.CutPrefix(line, "DELETE "); ok {
			parts := strings.Split(path, "/")
			deleted = append(deleted, parts[len(parts)-2])
		}
	}
	if want := []string{"jobs", "roles", "serviceaccounts"}; !slices.Equal(deleted, want) {
		t.Errorf("deleted: %v, want %v", deleted, want)
	}
	w.hub.remove(name)
	w.hub.await(t, name, gone)
}

// A failed hook goes by its own policy, those before it by theirs; the next revision runs them all again.
func TestPoliciesOfAFailedHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("policies")
	text := annotated("account", "1",
		`helm.sh/hook: pre-install, helm.sh/hook-weight: "-1", helm.sh/hook-delete-policy: hook-succeeded`) +
		annotated("stays", "1", `helm.sh/hook: pre-install, helm.sh/hook-weight: "-1", helm.sh/hook-delete-policy: hook-failed`) +
		job("check", "helm.sh/hook: pre-install, helm.sh/hook-delete-policy: hook-failed")
	digest := w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": text})
	w.found("v1", "ConfigMap", "account")
	w.end("check", "Failed")
	report := w.hub.awaitPhase(t, name, digest, failed)
	if want := "the hook failed: the test says so"; !strings.Contains(report.GetMessage(), want) {
		t.Errorf("got %s, want %s", report.GetMessage(), want)
	}
	w.leaves("batch/v1", "Job", "check")
	w.leaves("v1", "ConfigMap", "account")
	w.found("v1", "ConfigMap", "stays")
	digest = w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": text + annotated("config", "1", "")})
	w.end("check", "Complete")
	w.hub.awaitPhase(t, name, digest, healthy)
	w.found("batch/v1", "Job", "check")
	w.leaves("v1", "ConfigMap", "account")
}

// A Job that deletes itself once it has ended has told how; one that somebody deletes before has not.
func TestHookThatIsDeletedWhileItIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	for _, condition := range []string{"Complete", "Failed", ""} {
		name, hook := w.service("gone"+strings.ToLower(condition)), "gone"+strings.ToLower(condition)
		digest := w.hub.push(t, name, w.namespace, map[string]string{
			"all.yaml": job(hook, "helm.sh/hook: pre-install") + annotated(hook+"-config", "1", ""),
		})
		w.found("batch/v1", "Job", hook)
		if condition != "" {
			w.end(hook, condition)
		}
		kubectl(w, "", "delete", "job", hook, "--wait=false")
		if condition == "Complete" {
			w.hub.awaitPhase(t, name, digest, healthy)
			w.mustData(hook+"-config", "1")
			continue
		}
		report := w.hub.awaitPhase(t, name, digest, failed)
		if want := map[string]string{
			"Failed": "the hook failed: the test says so",
			"":       "the hook went away before it had ended: somebody deleted it",
		}[condition]; !strings.Contains(report.GetMessage(), want) {
			t.Errorf("got %s, want %s", report.GetMessage(), want)
		}
		w.mustBeGone("v1", "ConfigMap", w.namespace, hook+"-config")
	}
}

// The TTL controller may be as fast as the end of the Job.
func TestHookWithATTLOfZero(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("ttl")
	text := strings.Replace(job("patch", "helm.sh/hook: pre-install"), "spec: {suspend",
		"spec: {ttlSecondsAfterFinished: 0, suspend", 1)
	digest := w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": text + annotated("config", "1", "")})
	w.end("patch", "Complete")
	w.hub.awaitPhase(t, name, digest, healthy)
	if made := w.api.patches("/jobs/patch"); made != 1 {
		t.Errorf("the hook was made %d times", made)
	}
}

// Where nobody saw how a Job ended its event tells.
func TestHookThatEndsUnseen(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprint(told), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.api.set(func(r *http.Request) int {
				if r.URL.Query().Has("watch") &&
					strings.HasPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=unseen") {
					return http.StatusServiceUnavailable
				}
				return 0
			})
			w.start()
			name := w.service("unseen")
			digest := w.hub.push(t, name, w.namespace, map[string]string{
				"all.yaml": job("unseen", "helm.sh/hook: pre-install") + annotated("config", "1", ""),
			})
			uid := w.found("batch/v1", "Job", "unseen").GetUID()
			if told {
				kubectl(w, fmt.Sprintf("apiVersion: v1\nkind: Event\nmetadata: {name: ended}\nreason: Completed\ntype: Normal\ninvolvedObject: {apiVersion: batch/v1, kind: Job, name: unseen, namespace: %s, uid: %s}\n", w.namespace, uid), "create", "-f", "-")
			}
			kubectl(w, "", "delete", "job", "unseen", "--wait=false")
			if told {
				w.hub.awaitPhase(t, name, digest, healthy)
				w.mustData("config", "1")
				return
			}
			report := w.hub.awaitPhase(t, name, digest, failed)
			if want := "the hook went away while the API server was not heard"; !strings.Contains(report.GetMessage(), want) {
				t.Errorf("got %s, want %s", report.GetMessage(), want)
			}
		})
	}
}

// Helm starts hooks after the objects when those are sent, since pods may need them to become ready; Argo CD when all
// is healthy. A service may say which it is.
func TestHooksAfterTheObjects(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		when        deliveryv1.PostHooks
		runs, waits []string
	}{
		{"usual", deliveryv1.PostHooks_POST_HOOKS_UNSPECIFIED, []string{"helm"}, []string{"argo"}},
		{"sent", deliveryv1.PostHooks_POST_HOOKS_SENT, []string{"argo", "helm"}, nil},
		{"healthy", deliveryv1.PostHooks_POST_HOOKS_HEALTHY, nil, []string{"argo", "helm"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start()
			name := w.service("after")
			digest := w.hub.pushSynced(t, name, w.namespace, map[string]string{
				"all.yaml": neverHealthy + job("helm", "helm.sh/hook: post-install") +
					job("argo", "argocd.argoproj.io/hook: PostSync"),
			}, &deliveryv1.SyncSpec{PostHooks: test.when})
			for _, job := range test.runs {
				w.end(job, "Complete")
			}
			if len(test.waits) == 0 {
				w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetAppliedDigest() == digest })
				return
			}
			w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
				return r.GetDigest() == digest && strings.Contains(r.GetMessage(), "stuck is not healthy yet")
			})
			for _, job := range test.waits {
				w.mustBeGone("batch/v1", "Job", w.namespace, job)
			}
		})
	}
}

func TestHooksBeforeARemoval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kill := w.process()
	name := w.service("leaving")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1"),
		"h.yaml": job("cleanup", "helm.sh/hook: pre-delete, helm.sh/hook-delete-policy: hook-succeeded") +
			job("bye", "helm.sh/hook: post-delete"),
	}), healthy)
	w.mustBeGone("batch/v1", "Job", w.namespace, "cleanup")
	w.hub.remove(name)
	first := w.found("batch/v1", "Job", "cleanup")
	w.mustData("a", "1") // no object is gone yet
	kill()
	w.process()
	w.end("cleanup", "Failed")
	// The hook may be there to keep what would be lost.
	report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == failed })
	if want := "The service is not removed, since a hook for pre-delete failed: Job " + w.namespace +
		"/cleanup"; !strings.HasPrefix(report.GetMessage(), want) {
		t.Errorf("got %s, want %s", report.GetMessage(), want)
	}
	w.mustData("a", "1")
	w.awaitAnotherJob("cleanup", first.GetUID())
	w.end("cleanup", "Complete")
	w.leaves("v1", "ConfigMap", "a")
	w.leaves("batch/v1", "Job", "cleanup")
	w.end("bye", "Complete")
	w.hub.await(t, name, gone)
	w.mustBeGone("v1", "ConfigMap", inventory.Namespace, "inventory."+name)
	if made := w.api.patches("/jobs/cleanup"); made != 2 {
		t.Errorf("the hook was made %d times", made)
	}
}

// A service that is wanted again, and removed again, is removed with all its hooks.
func TestARemovalAfterOneThatWasCalledOffRunsItsHooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("twice")
	files := map[string]string{
		"a.yaml": configMap("a", "1"),
		"h.yaml": job("cleanup", "helm.sh/hook: pre-delete") +
			job("later", `helm.sh/hook: pre-delete, helm.sh/hook-weight: "1"`),
	}
	digest := w.hub.push(t, name, w.namespace, files)
	w.hub.awaitPhase(t, name, digest, healthy)
	w.hub.remove(name)
	first := w.found("batch/v1", "Job", "cleanup")
	w.end("cleanup", "Complete")
	later := w.found("batch/v1", "Job", "later")
	if again := w.hub.push(t, name, w.namespace, files); again != digest {
		t.Fatal("the same content has another digest")
	}
	await.True(w.t, "the removal is called off", func() bool { return w.record(name).CalledOff == 1 })
	w.hub.remove(name)
	w.awaitAnotherJob("cleanup", first.GetUID())
	w.end("cleanup", "Complete")
	w.awaitAnotherJob("later", later.GetUID())
	w.end("later", "Complete")
	w.hub.await(t, name, gone)
	if made := w.api.patches("/jobs/cleanup"); made != 2 {
		t.Errorf("the hook was made %d times", made)
	}
}

// Hooks before a removal are not passed over because nobody knows any more what they were.
func TestARemovalWhoseHooksWereLostStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("lost")
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": configMap("a", "1"), "h.yaml": job("cleanup", "helm.sh/hook: pre-delete"),
		}), healthy)
	stop()
	w.emptyDisk()
	w.hub.remove(name)
	w.start()
	report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == failed })
	_, command, found := strings.Cut(report.GetMessage(), "To remove the service without them: kubectl ")
	if !found || !strings.HasPrefix(report.GetMessage(),
		"The service is not removed, since the agent's disk has lost the hooks for pre-delete.") {
		t.Fatalf("got %s", report.GetMessage())
	}
	w.mustData("a", "1")
	if _, err := kube.Cluster(t).Kubectl(t.Context(), "", strings.Fields(command)...); err != nil {
		t.Fatal(err)
	}
	await.True(w.t, "the service goes", func() bool {
		_, err := w.get("v1", "ConfigMap", inventory.Namespace, "inventory."+name)
		return apierrors.IsNotFound(err)
	})
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
}

func TestHookBeforeAndAfterARemovalRunsTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("leaving")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1"), "h.yaml": job("cleanup", `helm.sh/hook: "pre-delete,post-delete"`),
	}), healthy)
	w.hub.remove(name)
	first := w.found("batch/v1", "Job", "cleanup")
	w.mustData("a", "1")
	w.end("cleanup", "Complete")
	w.awaitAnotherJob("cleanup", first.GetUID())
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
	stop() // the next agent goes on with the second one
	w.start()
	w.end("cleanup", "Complete")
	w.hub.await(t, name, gone)
	if made := w.api.patches("/jobs/cleanup"); made != 2 {
		t.Errorf("the hook was made %d times", made)
	}
	w.mustBeGone("batch/v1", "Job", w.namespace, "cleanup")
}

// A digest that comes back is another revision, whose hooks run.
func TestHooksRunForADigestThatComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("back")
	good := map[string]string{"a.yaml": configMap("a", "1"), "h.yaml": job("after", "fairlead.dev/hook: post-sync")}
	first := w.hub.push(t, name, w.namespace, good)
	w.end("after", "Complete")
	w.hub.awaitPhase(t, name, first, healthy)
	ran := w.found("batch/v1", "Job", "after")
	bad := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "2"), "b.yaml": job("check", "fairlead.dev/hook: pre-sync"), "h.yaml": good["h.yaml"],
	})
	w.end("check", "Failed")
	w.hub.awaitPhase(t, name, bad, failed)
	if again := w.hub.push(t, name, w.namespace, good); again != first {
		t.Fatal("the content before has another digest")
	}
	w.awaitAnotherJob("after", ran.GetUID())
	w.end("after", "Complete")
	w.hub.awaitPhase(t, name, first, healthy)
	w.mustData("a", "1")
}

// An agent that did not apply a service gets what a removal needs before there is one.
func TestAnotherAgentRunsTheHooksOfARemoval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("handed")
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1"), "h.yaml": annotated("last", "1", "helm.sh/hook: pre-delete"),
	})
	w.hub.awaitPhase(t, name, digest, healthy)
	stop()
	w.emptyDisk()
	w.start()
	await.True(w.t, "the other agent has the manifests", func() bool {
		sets, err := filepath.Glob(filepath.Join(w.data, "sets", name+".*"))
		return err == nil && len(sets) > 0
	})
	w.hub.remove(name)
	await.True(w.t, "the service goes", func() bool { // the hub has heard higher numbers of reports from the agent before
		_, err := w.get("v1", "ConfigMap", inventory.Namespace, "inventory."+name)
		return apierrors.IsNotFound(err)
	})
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
	if made := w.api.patches("/configmaps/last"); made != 1 {
		t.Errorf("the hook was made %d times", made)
	}
}

func TestRemovalWithoutAHookThatCannotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("leaving")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1"),
		"h.yaml": job("cleanup", "helm.sh/hook: pre-delete, fairlead.dev/timeout: 500ms"),
	}), healthy)
	w.hub.remove(name)
	report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == failed })
	_, command, found := strings.Cut(report.GetMessage(), "To remove the service without it: kubectl ")
	if !found || !strings.Contains(report.GetMessage(), "did not end within 500ms") {
		t.Fatalf("got %s", report.GetMessage())
	}
	if _, err := kube.Cluster(t).Kubectl(t.Context(), "", strings.Fields(command)...); err != nil {
		t.Fatal(err)
	}
	w.hub.await(t, name, gone)
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
	w.mustBeGone("batch/v1", "Job", w.namespace, "cleanup")
}

// A hook may have the name of an ordinary object, which is there when all is done, before and after an upgrade.
func TestHookAndObjectOfOneName(t *testing.T) {
	t.Parallel()
	for _, moments := range []string{"pre-install,pre-upgrade", "post-install,post-upgrade"} {
		t.Run(moments[:4], func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start()
			name := w.service("shared")
			files := func(value string) map[string]string {
				return map[string]string{"all.yaml": annotated("account", value, "") +
					annotated("account", "hook",
						`helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded", helm.sh/hook: "`+
							moments+`"`)}
			}
			for _, value := range []string{"1", "1", "2"} {
				more := files(value)
				more["README.md"] = fmt.Sprint(len(w.api.since(0)))
				w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, more), healthy)
				w.mustData("account", value)
				if obj := w.found("v1", "ConfigMap", "account"); len(obj.GetAnnotations()) > 0 {
					t.Errorf("the hook's annotations are left: %v", obj.GetAnnotations())
				}
			}
			entries := w.record(name).Entries
			if len(entries) != 1 || entries[0].Hook || entries[0].Sum == 0 {
				t.Errorf("the inventory has %+v", entries)
			}
			kubectl(w, "", "patch", "configmap", "account", `-p={"data":{"x":"theirs"}}`)
			await.True(w.t, "it is repaired", func() bool {
				obj, err := w.get("v1", "ConfigMap", w.namespace, "account")
				value, _, _ := unstructured.NestedString(obj.Object, "data", "x")
				return err == nil && value == "2"
			})
			w.hub.remove(name)
			w.hub.await(t, name, gone)
			w.mustBeGone("v1", "ConfigMap", w.namespace, "account")
		})
	}
}

// A hook without a name of its own has another one for each revision.
func TestHookWithAGeneratedName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kill := w.process()
	name := w.service("generated")
	text := strings.Replace(job("migrate-", "argocd.argoproj.io/hook: PreSync"), "{name: migrate-",
		"{generateName: migrate-", 1)
	var names []string
	made := func() string {
		var found string
		await.True(w.t, "the hook's object", func() bool {
			out, err := kube.Cluster(t).Kubectl(t.Context(), "", "-n", w.namespace, "get", "jobs", "-o=name")
			for line := range strings.FieldsSeq(string(out)) {
				if one := strings.TrimPrefix(line, "job.batch/"); !slices.Contains(names, one) {
					found = one
				}
			}
			return err == nil && found != ""
		})
		names = append(names, found)
		return found
	}
	for _, value := range []string{"1", "2"} {
		digest := w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": text + annotated("config", value, "")})
		one := made()
		if !strings.HasPrefix(one, "migrate-") {
			t.Errorf("it is called %s", one)
		}
		kill()
		kill = w.process()
		w.end(one, "Complete")
		w.hub.awaitPhase(t, name, digest, healthy)
		if count := w.api.patches("/jobs/" + one); count != 1 {
			t.Errorf("%s was made %d times", one, count)
		}
	}
	w.leaves("batch/v1", "Job", names[0])
	w.hub.remove(name)
	w.hub.await(t, name, gone)
	w.mustBeGone("batch/v1", "Job", w.namespace, names[1])
}

// Data with a generated name is of its revision, too. Data that only the installation makes stays.
func TestSecretWithAGeneratedNameGoesWithItsRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("generated")
	text := func(begin, hook string) string {
		return strings.Replace(secret(begin, "1", "helm.sh/hook: "+hook), "{name: ", "{generateName: ", 1)
	}
	secrets := func() []string {
		out, err := kube.Cluster(t).Kubectl(t.Context(), "", "-n", w.namespace, "get", "secrets", "-o=name")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	var before []string
	for _, value := range []string{"1", "2", "3"} {
		w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": configMap("a", value) + text("each-", `"pre-install,pre-upgrade"`) +
				text("first-", "pre-install"),
		}), healthy)
		now := secrets()
		if len(now) != 2 || !strings.HasPrefix(now[0], "secret/each-") ||
			!strings.HasPrefix(now[1], "secret/first-") ||
			len(before) > 0 && (now[0] == before[0] || now[1] != before[1]) {
			t.Errorf("revision %s has %v, that before %v", value, now, before)
		}
		before = now
	}
	w.hub.remove(name)
	w.hub.await(t, name, gone)
	if left := secrets(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// The cause that keeps a hook from ending is told, and the next revision does not wait for the hook.
func TestStuckHookSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("stuck")
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"all.yaml": job("check", "helm.sh/hook: pre-install") + annotated("config", "1", ""),
	})
	uid := w.found("batch/v1", "Job", "check").GetUID()
	kubectl(w, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: check-1, labels: {controller-uid: %s}}\nspec: {schedulerName: none, containers: [{name: c, image: none-such}]}\n", uid), "create", "-f", "-")
	kubectl(w, "", "patch", "pod", "check-1", "--subresource=status", "--type=merge",
		`-p={"status":{"containerStatuses":[{"name":"c","image":"none-such","imageID":"","ready":false,"restartCount":0,"state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}}]}}`)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == digest &&
			strings.Contains(r.GetMessage(),
				"check is a hook that has not ended yet (pod check-1: container c: ImagePullBackOff: no such image)")
	})
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": annotated("config", "2", "")}), healthy)
	w.mustData("config", "2")
	w.mustBeGone("batch/v1", "Job", w.namespace, "check")
}

// A container may end with any text: what the service's Secrets hold is taken out of it.
func TestReasonOfAHookTellsNoValueOfASecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("talks")
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": secret("login", "hunter2hunter", ""),
		"b.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: file}\nstringData:\n  env: |\n    USER=ada\n    TOKEN=swordfish99\n  json: '{\"deep\": [\"opensesame\"]}'\n",
		"h.yaml": job("check", "helm.sh/hook: post-install"),
	})
	uid := w.found("batch/v1", "Job", "check").GetUID()
	kubectl(w, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: check-1, labels: {controller-uid: %s}}\nspec: {schedulerName: none, containers: [{name: c, image: none-such}]}\n", uid), "create", "-f", "-")
	kubectl(w, "", "patch", "pod", "check-1", "--subresource=status", "--type=merge",
		`-p={"status":{"containerStatuses":[{"name":"c","image":"none-such","imageID":"","ready":false,"restartCount":0,"state":{"waiting":{"reason":"ImagePullBackOff","message":"bad login hunter2hunter, token swordfish99, opensesame of ada"}}}]}}`)
	report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == digest && strings.Contains(r.GetMessage(), "ImagePullBackOff")
	})
	if want := "bad login ***, token ***, *** of ada"; !strings.Contains(report.GetMessage(), want) {
		t.Errorf("got %s, want %s", report.GetMessage(), want)
	}
}

// An agent of an earlier version named no revision in the objects of hooks. The agent that takes its place goes on with
// a hook that runs.
func TestAnUpgradeOfTheAgentGoesOnWithAHookThatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kill := w.process()
	name := w.service("upgraded")
	files := map[string]string{"all.yaml": configMap("a", "1")}
	first := w.hub.push(t, name, w.namespace, files)
	w.hub.awaitPhase(t, name, first, healthy)
	files["all.yaml"] = configMap("a", "2") + job("migrate", "fairlead.dev/hook: pre-sync")
	digest := w.hub.push(t, name, w.namespace, files)
	made := w.found("batch/v1", "Job", "migrate")
	kill()
	// As the earlier version left it.
	const annotation = "fairlead.dev/hook-run"
	old, _, _ := strings.Cut(made.GetAnnotations()[annotation], "@2 ")
	w.kubectl("annotate", "--overwrite", "job", "migrate", annotation+"="+old)
	head, err := w.get("v1", "ConfigMap", inventory.Namespace, "inventory."+name)
	if err != nil {
		t.Fatal(err)
	}
	state, _, _ := unstructured.NestedString(head.Object, "data", "state")
	patch, err := json.Marshal(map[string]any{
		"data": map[string]string{"state": strings.Replace(state, `,"numbered":true,"sealed":true`, "", 1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	kubectl(w, "", "patch", "configmap", "-n", inventory.Namespace, "inventory."+name, "--type=merge",
		"-p="+string(patch))
	w.process()
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == digest && strings.Contains(r.GetMessage(), "is a hook that has not ended yet")
	})
	if now := w.found("batch/v1", "Job", "migrate"); now.GetUID() != made.GetUID() {
		t.Fatal("the hook was made again")
	}
	w.end("migrate", "Complete")
	w.hub.awaitPhase(t, name, digest, healthy)
	// Of a digest that comes back, the hook runs again.
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": configMap("a", "3")}),
		healthy)
	w.hub.push(t, name, w.namespace, files)
	w.awaitAnotherJob("migrate", made.GetUID())
}

// An account that may make Jobs in a service's namespace knows the digest that comes next, and could have made its hook
// end well beforehand.
func TestAJobMadeBeforehandIsNotTakenForTheHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kill := w.process()
	name := w.service("forged")
	files := map[string]string{"all.yaml": configMap("a", "1")}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	kill()
	files["all.yaml"] = configMap("a", "2") + job("migrate", "fairlead.dev/hook: pre-sync")
	digest := w.hub.push(t, name, w.namespace, files)
	kubectl(w, job("migrate", "fairlead.dev/hook-run: "+digest+"@2"), "apply", "-n", w.namespace, "-f", "-")
	w.kubectl("label", "job", "migrate", "fairlead.dev/service="+name)
	w.end("migrate", "Complete")
	forged := w.found("batch/v1", "Job", "migrate")
	w.process()
	w.awaitAnotherJob("migrate", forged.GetUID())
	if made := w.found("batch/v1", "Job", "migrate"); made.GetAnnotations()["fairlead.dev/hook-run"] == digest+"@2" {
		t.Error("a hook that the agent made has no seal")
	}
	w.end("migrate", "Complete")
	w.hub.awaitPhase(t, name, digest, healthy)
}
