package acceptance

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
)

func gone(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed }

// Hooks for post-delete run when all else is gone, in a namespace that goes after them, once, also over a restart.
func TestHooksRunAfterARemoval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("last")
	own := w.namespace + "-own"
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1"), "n.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + own + "}\n",
		"h.yaml": job("cleanup", "helm.sh/hook: post-delete"),
		"g.yaml": strings.Replace(annotated("goodbye", "1", `argocd.argoproj.io/hook: PostDelete`), "{name: goodbye,",
			"{name: goodbye, namespace: "+own+",", 1),
	}), healthy)
	w.mustBeGone("batch/v1", "Job", w.namespace, "cleanup")
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return strings.Contains(r.GetMessage(), "cleanup is a hook that has not ended yet")
	})
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
	if _, err := w.get("v1", "ConfigMap", own, "goodbye"); err != nil {
		t.Errorf("the other hook: %v", err)
	}
	before, err := w.get("batch/v1", "Job", w.namespace, "cleanup")
	if err != nil {
		t.Fatal(err)
	}
	stop()
	w.start()
	w.end("cleanup", "Complete")
	if report := w.hub.await(t, name, gone); report.GetMessage() != "" {
		t.Errorf("got %s", report.GetMessage())
	}
	if made := w.api.patches("/jobs/cleanup"); made != 1 {
		t.Errorf("the hook %s was made %d times", before.GetUID(), made)
	}
	w.mustBeGone("batch/v1", "Job", w.namespace, "cleanup")
	w.mustBeGone("v1", "ConfigMap", own, "goodbye")
	w.mustBeGone("v1", "ConfigMap", inventory.Namespace, "inventory."+name)
}

func TestHookThatFailsDoesNotKeepAServiceFromLeaving(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("last")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1"), "h.yaml": job("cleanup", "fairlead.dev/hook: post-delete"),
	}), healthy)
	w.hub.remove(name)
	w.end("cleanup", "Failed")
	report := w.hub.await(t, name, gone)
	if !strings.HasPrefix(report.GetMessage(), "A hook for post-delete failed: ") ||
		!strings.Contains(report.GetMessage(), "cleanup") {
		t.Errorf("got %s", report.GetMessage())
	}
	w.mustBeGone("v1", "ConfigMap", inventory.Namespace, "inventory."+name)
}

// A removal takes over no more than a sync does: neither before the objects go, nor after.
func TestObjectOfOthersWithTheNameOfARemovalHookStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	theirs := func(name string) types.UID {
		kubectl(w, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+
			", labels: {app.kubernetes.io/managed-by: Helm}, annotations: {"+
			"meta.helm.sh/release-name: web, meta.helm.sh/release-namespace: shop}}\ndata: {x: theirs}\n", "apply",
			"-f", "-")
		return w.found("v1", "ConfigMap", name).GetUID()
	}
	mustStay := func(name string, uid types.UID) {
		t.Helper()
		w.mustData(name, "theirs")
		if obj := w.found("v1", "ConfigMap", name); obj.GetUID() != uid || object.Owner(obj) != "" {
			t.Errorf("%s was taken over: %v", name, obj.GetLabels())
		}
	}
	const problem = "it belongs to Helm release shop/web"
	name := w.service("before")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1"),
		"h.yaml": annotated("first", "1", "helm.sh/hook: pre-delete, helm.sh/hook-delete-policy: hook-succeeded"),
	}), healthy)
	first := theirs("first")
	w.hub.remove(name)
	report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == failed })
	_, command, found := strings.Cut(report.GetMessage(), "To remove the service without it: kubectl ")
	if want := "The service is not removed, since a hook for pre-delete did not come to run: ConfigMap " +
		w.namespace + "/first"; !strings.HasPrefix(report.GetMessage(), want) ||
		!strings.Contains(report.GetMessage(), problem) || !found {
		t.Errorf("got %s, want %s, and %s", report.GetMessage(), want, problem)
	}
	w.mustData("a", "1")
	mustStay("first", first)
	if _, err := kube.Cluster(t).Kubectl(t.Context(), "", strings.Fields(command)...); err != nil {
		t.Fatal(err)
	}
	w.hub.await(t, name, gone)
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
	mustStay("first", first)

	name = w.service("after")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"b.yaml": configMap("b", "1"), "h.yaml": annotated("last", "1", "helm.sh/hook: post-delete"),
	}), healthy)
	last := theirs("last")
	w.hub.remove(name)
	report = w.hub.await(t, name, gone)
	if want := "A hook for post-delete did not come to run: ConfigMap " + w.namespace +
		"/last"; !strings.HasPrefix(report.GetMessage(), want) || !strings.Contains(report.GetMessage(), problem) {
		t.Errorf("got %s, want %s, and %s", report.GetMessage(), want, problem)
	}
	w.mustBeGone("v1", "ConfigMap", w.namespace, "b")
	mustStay("last", last)
}

// An object that another service is about to make is in its inventory first.
func TestRemovalHookWithTheNameOfAnotherServicesObjectIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	other, name := w.service("other"), w.service("leaving")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1"), "h.yaml": annotated("common", "1", "fairlead.dev/hook: pre-delete"),
	}), healthy)
	// The ConfigMap waits for its turn, so that the cluster does not have it yet.
	waits := w.hub.push(t, other, w.namespace, map[string]string{
		"h.yaml": job("wait", "fairlead.dev/hook: pre-sync"), "c.yaml": configMap("common", "other"),
	})
	w.found("batch/v1", "Job", "wait")
	w.hub.remove(name)
	report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == failed })
	if want := "common (apps/hello/h.yaml, document 1): it belongs to service \"" + other +
		"\""; !strings.Contains(report.GetMessage(), want) {
		t.Errorf("got %s, want %s", report.GetMessage(), want)
	}
	w.mustBeGone("v1", "ConfigMap", w.namespace, "common")
	w.end("wait", "Complete")
	w.hub.awaitPhase(t, other, waits, healthy)
	w.mustData("common", "other")
	// Once it is nobody's, the hook has its turn.
	w.hub.remove(other)
	w.hub.await(t, other, gone)
	w.hub.await(t, name, gone)
	w.mustBeGone("v1", "ConfigMap", w.namespace, "common")
}

// An object that stays in the cluster is told in the last report, however often the removal had to look for what goes.
func TestRemovalInSeveralPassesTellsAllThatItKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name, group, own := w.service("slow"), w.namespace+".dev", w.namespace+"-own"
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": crd(group), "b.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + own +
			", finalizers: [harbour.dev/hold]}\n",
		"h.yaml": annotated("last", "1", "helm.sh/hook: post-delete"),
	}), healthy)
	kubectl(w, raft(group, "theirs"), "create", "-f", "-")
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return strings.Contains(r.GetMessage(), own+" waits for its finalizers: harbour.dev/hold")
	})
	stop() // the next agent knows, too
	w.start()
	kubectl(w, "", "patch", "namespace", own, "--type=merge", `-p={"metadata":{"finalizers":null}}`)
	report := w.hub.await(t, name, gone)
	if want := "CustomResourceDefinition rafts." + group + " stays, without the service's mark: there is Raft " +
		w.namespace + "/theirs."; report.GetMessage() != want {
		t.Errorf("got %q, want %q", report.GetMessage(), want)
	}
}
