package agent_test

import (
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/inventory"
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
		"g.yaml": strings.Replace(annotated("goodbye", "1", `argocd.argoproj.io/hook: PostDelete`), "{name: goodbye,", "{name: goodbye, namespace: "+own+",", 1),
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
	if !strings.HasPrefix(report.GetMessage(), "A hook for post-delete failed: ") || !strings.Contains(report.GetMessage(), "cleanup") {
		t.Errorf("got %s", report.GetMessage())
	}
	w.mustBeGone("v1", "ConfigMap", inventory.Namespace, "inventory."+name)
}
