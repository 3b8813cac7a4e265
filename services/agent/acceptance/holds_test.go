package acceptance

import (
	"fmt"
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/object"
)

func TestObjectThatIsHeldInTheClusterKeepsADigestOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("web")
	first := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1"),
	})
	w.hub.awaitPhase(t, name, first, healthy)
	w.kubectl("annotate", "configmap", "a", "fairlead.dev/hold=ada looks at it")
	// The agent hears of it in order: once this one is repaired, it has heard of the hold.
	w.kubectl("patch", "configmap", "b", "--type=merge", `-p={"data":{"x":"other"}}`)
	await.True(w.t, "the other one is put right", func() bool { return w.value("b") == "1" })
	second := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "2"), "b.yaml": configMap("b", "2"),
	})
	report := w.hub.awaitPhase(t, name, second, held)
	want := "ConfigMap " + w.namespace +
		"/a is held by its annotation fairlead.dev/hold in the cluster (ada looks at it), and stays as it was."
	if report.GetAppliedDigest() != first || !strings.Contains(report.GetMessage(), want) {
		t.Errorf("got %v, want %s", report, want)
	}
	w.mustData("a", "1")
	w.mustData("b", "2")
	w.mustData("c", "1") // no object goes before all is applied
	w.kubectl("annotate", "configmap", "a", "fairlead.dev/hold-")
	w.hub.awaitPhase(t, name, second, healthy)
	w.mustData("a", "2")
	w.mustBeGone("v1", "ConfigMap", w.namespace, "c")

	// The held object is not removed, either.
	w.kubectl("annotate", "configmap", "b", "fairlead.dev/hold=ada looks at it")
	third := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "3")})
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetAppliedDigest() == third &&
			strings.Contains(r.GetMessage(),
				"ConfigMap "+w.namespace+"/b is held by its annotation fairlead.dev/hold in the cluster")
	})
	w.mustData("b", "2")
	w.kubectl("annotate", "configmap", "b", "fairlead.dev/hold-")
	w.hub.awaitPhase(t, name, third, healthy)
	w.mustBeGone("v1", "ConfigMap", w.namespace, "b")
}

// heard waits until the agent has heard of what was done to ConfigMaps: it hears of a kind's objects in order, and
// makes the one that is given here anew.
func (w *world) heard(configMap string) {
	w.t.Helper()
	w.delete(configMap)
	await.True(w.t, configMap+" is made anew", func() bool { return w.has(configMap) })
}

func TestHookThatIsHeldInTheClusterIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hooked")
	files := func(value string) map[string]string {
		return map[string]string{
			"a.yaml": configMap("a", value),
			"h.yaml": annotated("hook", value, "fairlead.dev/hook: pre-sync"),
			"d.yaml": annotated("done", value, "fairlead.dev/hook: post-sync, fairlead.dev/hook-delete: succeeded"),
		}
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files("1")), healthy)
	w.kubectl("annotate", "configmap", "hook", object.HoldAnnotation+"=incident")
	w.heard("a")
	second := w.hub.push(t, name, w.namespace, files("2"))
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == second &&
			strings.Contains(r.GetMessage(), "hook is a hook that is held by its annotation")
	})
	w.mustData("hook", "1")
	w.mustData("a", "1")
	w.kubectl("annotate", "configmap", "hook", object.HoldAnnotation+"-")
	w.hub.awaitPhase(t, name, second, healthy)
	w.mustData("hook", "2")
	w.mustData("a", "2")
}

// While people hold an object, the rest of the service may change as it likes: nothing is begun anew for that.
func TestHeldObjectDoesNotBeginTheApplyAtEveryNotice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("held")
	const others = 16
	files := func(value string) map[string]string {
		all := map[string]string{"b.yaml": configMap("b", value)}
		for i := range others {
			all[fmt.Sprint("a", i, ".yaml")] = configMap(fmt.Sprint("a", i), "1")
		}
		return all
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files("1")), healthy)
	w.kubectl("annotate", "configmap", "b", object.HoldAnnotation+"=incident")
	w.heard("a0")
	second := w.hub.push(t, name, w.namespace, files("2"))
	w.hub.awaitPhase(t, name, second, held)
	before := w.counted("fairlead_agent_applies_total", "failed")
	for i := range others {
		w.heard(fmt.Sprint("a", i))
	}
	// The agent may try again by itself, ever more seldom.
	if n := w.counted("fairlead_agent_applies_total", "failed") - before; n >= others-2 {
		t.Errorf("it began %v times anew", n)
	}
	w.kubectl("annotate", "configmap", "b", object.HoldAnnotation+"-")
	w.hub.awaitPhase(t, name, second, healthy)
	w.mustData("b", "2")
}
