package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/object"
)

// Killed in the middle of pruning, and what comes next is held up: what is gone by then stays gone.
func TestWhatIsBeingPrunedIsNotMadeAgainByTheNextAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reached := w.api.stallOn(http.MethodDelete, "/configmaps/gone")
	kill := w.process()
	name := w.service("all")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1"), "b.yaml": configMap("beside", "1"), "c.yaml": configMap("gone", "1"),
	}), healthy)
	w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "2"), "b.yaml": configMap("beside", "1"),
	})
	waitFor(t, reached, "the deletion")
	kill()
	w.delete("gone") // its deletion had arrived
	w.api.set(func(r *http.Request) int {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/configmaps/a") {
			return http.StatusInternalServerError
		}
		return 0
	})
	before := w.api.patches("/configmaps/gone")
	third := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "3"), "b.yaml": configMap("beside", "1"),
	})
	w.start()
	w.hub.awaitPhase(t, name, third, failed)
	w.delete("beside")
	await.True(w.t, "what is deleted by others comes back", func() bool { return w.has("beside") })
	if n := w.api.patches("/configmaps/gone") - before; n > 0 {
		t.Errorf("what was pruned was sent %d times", n)
	}
	w.api.set(nil)
	w.hub.awaitPhase(t, name, third, healthy)
	w.mustBeGone("v1", "ConfigMap", w.namespace, "gone")
}

// has tells whether there is a ConfigMap.
func (w *world) has(name string) bool {
	_, err := w.get("v1", "ConfigMap", w.namespace, name)
	return err == nil
}

// An object that is on the way out, and was confirmed where it had to be, is not asked about again.
func TestObjectsThatWaitForFinalizersNeedNoConfirmationAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("slow")
	files := map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")}
	for i := range 2 {
		files[fmt.Sprint("stuck", i,
			".yaml")] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stuck%d, finalizers: [harbour.dev/hold]}\n", i)
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	files = map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1")} // half of them: no question
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), progressing)
	delete(files, "b.yaml") // three of four would leave, by what is there
	third := w.hub.push(t, name, w.namespace, files)
	report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == third && (r.GetPhase() == waiting || r.GetAppliedDigest() == third)
	})
	if report.GetPhase() == waiting {
		t.Fatalf("it asks: %s", report.GetMessage())
	}
	w.mustBeGone("v1", "ConfigMap", w.namespace, "b")
	w.release("stuck0")
	w.release("stuck1")
	w.hub.awaitPhase(t, name, third, healthy)
}

// An object that stayed because removing was switched off was never confirmed: it is asked about when removing is
// switched on.
func TestWhatStayedWhileRemovingWasSwitchedOffIsGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("kept")
	off := &deliveryv1.SyncSpec{Prune: &deliveryv1.PruneSpec{Disabled: true}}
	all := configMap("a", "1")
	for i := range 4 {
		all += "---\n" + configMap(fmt.Sprint("b", i), "1")
	}
	w.hub.awaitPhase(t, name, w.hub.pushSynced(t, name, w.namespace, map[string]string{"a.yaml": all}, off), healthy)
	second := w.hub.pushSynced(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}, off)
	if report := w.hub.awaitPhase(t, name, second,
		progressing); !strings.Contains(report.GetMessage(), "removing is switched off") {
		t.Errorf("got %s", report.GetMessage())
	}
	hold := w.hub.pushSynced(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")},
		&deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD})
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == hold && strings.Contains(r.GetMessage(), "Held")
	})
	on := w.hub.pushSynced(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}, nil)
	if report := w.hub.awaitPhase(t, name, on, waiting); report.GetGuard().GetRemoving() != 4 {
		t.Errorf("got %v", report)
	}
	for i := range 4 {
		if !w.has(fmt.Sprint("b", i)) {
			t.Errorf("b%d is gone", i)
		}
	}
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
