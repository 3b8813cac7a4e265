package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/object"
)

func configMaps(from, to int) map[string]string {
	files := map[string]string{}
	for i := from; i < to; i++ {
		files[fmt.Sprintf("%02d.yaml", i)] = configMap(fmt.Sprint("c", i), "1")
	}
	return files
}

func TestGuardStopsASharplySmallerRender(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("shrunk")
	good := w.hub.push(t, name, w.namespace, configMaps(0, 12))
	w.hub.awaitPhase(t, name, good, healthy)
	files := configMaps(0, 5)
	files["00.yaml"] = configMap("c0", "2")
	bad := w.hub.push(t, name, w.namespace, files)
	report := w.hub.awaitPhase(t, name, bad, deliveryv1.Phase_PHASE_WAITING)
	guard := report.GetGuard()
	if guard.GetRemoving() != 7 || guard.GetObjectsTotal() != 12 || len(guard.GetSample()) != 7 ||
		guard.GetSample()[0].GetName() == "" || report.GetAppliedDigest() != good {
		t.Errorf("got %v", report)
	}
	if want := fmt.Sprintf("would remove 7 of 12 objects, the first is ConfigMap %s/c10: more than half of them, and the default of sync.prune.maxPercent is 50. Nothing is changed until somebody confirms it: `fairlead confirm prune %s %s`.", w.namespace, name, guard.GetId()); !strings.Contains(report.GetMessage(), want) {
		t.Errorf("got %s, want %s", report.GetMessage(), want)
	}
	w.mustData("c0", "1")
	w.mustData("c11", "1")
	// Half of it, or less, is no accident.
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, configMaps(0, 6)), healthy)
	w.mustBeGone("v1", "ConfigMap", w.namespace, "c11")
}

// An apply that did not come to its end has made objects, too. Objects that it did not make don't count.
func TestGuardKnowsWhatAnApplyMadeThatDidNotEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("shrunk")
	files := configMaps(0, 12)
	files["x.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wrong}\ndatta: {}\n"
	elsewhere := ""
	for i := range 20 {
		elsewhere += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: e%d, namespace: %s-none}\n",
			i, w.namespace)
	}
	files["y.yaml"] = elsewhere
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), failed)
	w.mustData("c11", "1")
	fewer := configMaps(0, 5)
	fewer["y.yaml"] = elsewhere
	for _, files := range []map[string]string{fewer, configMaps(0, 5)} {
		digest := w.hub.push(t, name, w.namespace, files)
		report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
			return r.GetDigest() == digest && r.GetPhase() != applying
		})
		if guard := report.GetGuard(); report.GetPhase() != waiting || guard.GetRemoving() != 7 ||
			guard.GetObjectsTotal() != 12 {
			t.Errorf("got %v", report)
		}
	}
	w.mustData("c11", "1")
	id := w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, configMaps(0, 5)), waiting).GetGuard().GetId()
	w.hub.awaitPhase(t, name, w.hub.pushSynced(t, name, w.namespace, configMaps(0, 5),
		&deliveryv1.SyncSpec{Prune: &deliveryv1.PruneSpec{Confirmed: id}}), healthy)
	w.mustBeGone("v1", "ConfigMap", w.namespace, "c11")
}

func TestConfirmedGuardRemovesExactlyThat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("shrunk")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, configMaps(0, 10)), healthy)
	guard := w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, configMaps(0, 3)),
		deliveryv1.Phase_PHASE_WAITING).GetGuard()
	confirmed := &deliveryv1.SyncSpec{Prune: &deliveryv1.PruneSpec{Confirmed: guard.GetId()}}
	// The confirmed removal is not this one.
	other := w.hub.awaitPhase(t, name, w.hub.pushSynced(t, name, w.namespace, configMaps(0, 2), confirmed),
		deliveryv1.Phase_PHASE_WAITING).GetGuard()
	if other.GetId() == guard.GetId() || other.GetRemoving() != 8 {
		t.Errorf("got %v, confirmed is %s", other, guard.GetId())
	}
	w.mustData("c2", "1")
	w.mustData("c9", "1")
	w.hub.awaitPhase(t, name, w.hub.pushSynced(t, name, w.namespace, configMaps(0, 3), confirmed), healthy)
	w.mustData("c2", "1")
	w.mustBeGone("v1", "ConfigMap", w.namespace, "c3")
	w.mustBeGone("v1", "ConfigMap", w.namespace, "c9")
}

func TestThresholdOfTheGuardIsTheServices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	strict, lax := w.service("strict"), w.service("lax")
	percent := func(n int32) *deliveryv1.SyncSpec {
		return &deliveryv1.SyncSpec{Prune: &deliveryv1.PruneSpec{MaxPercent: new(n)}}
	}
	w.hub.awaitPhase(t, strict, w.hub.pushSynced(t, strict, w.namespace, configMaps(0, 10), percent(0)), healthy)
	w.hub.awaitPhase(t, lax, w.hub.pushSynced(t, lax, w.namespace, configMaps(20, 30), percent(100)), healthy)
	w.hub.awaitPhase(t, strict, w.hub.pushSynced(t, strict, w.namespace, configMaps(0, 9), percent(0)),
		deliveryv1.Phase_PHASE_WAITING)
	w.hub.awaitPhase(t, lax, w.hub.pushSynced(t, lax, w.namespace, configMaps(20, 21), percent(100)), healthy)
	w.mustData("c9", "1")
	w.mustBeGone("v1", "ConfigMap", w.namespace, "c29")
}

// Objects that people made in a namespace would go with it.
func TestNamespaceWithForeignObjectsStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, used, free := w.service("app"), w.namespace+"-used", w.namespace+"-free"
	namespace := "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: NAME}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: own, namespace: NAME}\n"
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": strings.ReplaceAll(namespace, "NAME", used), "b.yaml": strings.ReplaceAll(namespace, "NAME", free),
		"c.yaml": configMap("c", "1"),
	}), healthy)
	if _, err := kube.Cluster(t).Kubectl(t.Context(), "", "create", "secret", "generic", "precious", "-n",
		used); err != nil {
		t.Fatal(err)
	}
	w.hub.awaitPhase(t, name,
		w.hub.pushSynced(t, name, w.namespace, map[string]string{"c.yaml": configMap("c", "2")}, lax()), healthy)
	kept, err := w.get("v1", "Namespace", "", used)
	if err != nil || kept.GetDeletionTimestamp() != nil || object.Owner(kept) != "" {
		t.Errorf("the namespace is not let go of: %v %v", kept, err)
	}
	w.mustBeGone("v1", "ConfigMap", used, "own")
	w.mustBeGone("v1", "Namespace", "", free)
}

// Objects of a kind that people made would go with its definition.
func TestDefinitionWithForeignObjectsStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, group := w.service("kinds"), w.namespace+".net"
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": crd(group), "b.yaml": raft(group, "own"), "c.yaml": configMap("c", "1"),
		}), healthy)
	kubectl(w, raft(group, "foreign"), "apply", "-f", "-")
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	if _, err := w.get(group+"/v1", "Raft", w.namespace, "foreign"); err != nil {
		t.Errorf("the foreign object is gone: %v", err)
	}
	w.mustBeGone(group+"/v1", "Raft", w.namespace, "own")
}

func TestProtectDetachOrphan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	protect, detach, orphan := w.service("protect"), w.service("detach"), w.service("orphan")
	w.hub.awaitPhase(t, protect,
		w.hub.push(t, protect, w.namespace, map[string]string{
			"a.yaml": annotated("kept", "1", "helm.sh/resource-policy: keep"), "b.yaml": configMap("b", "1"),
		}), healthy)
	disabled := &deliveryv1.SyncSpec{Prune: &deliveryv1.PruneSpec{Disabled: true}}
	w.hub.awaitPhase(t, detach,
		w.hub.pushSynced(t, detach, w.namespace,
			map[string]string{"a.yaml": configMap("left", "1"), "b.yaml": configMap("d", "1")}, disabled), healthy)
	keeping := &deliveryv1.SyncSpec{OnDelete: deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN}
	w.hub.awaitPhase(t, orphan,
		w.hub.pushSynced(t, orphan, w.namespace, map[string]string{"a.yaml": configMap("o", "1")}, keeping), healthy)

	w.hub.awaitPhase(t, protect, w.hub.push(t, protect, w.namespace, map[string]string{"b.yaml": configMap("b", "2")}),
		healthy)
	digest := w.hub.pushSynced(t, detach, w.namespace, map[string]string{"b.yaml": configMap("d", "2")}, disabled)
	report := w.hub.await(t, detach,
		func(r *deliveryv1.ServiceReport) bool { return r.GetAppliedDigest() == digest && r.GetMessage() != "" })
	if want := "ConfigMap " + w.namespace +
		"/left stays, because removing is switched off"; !strings.Contains(report.GetMessage(), want) {
		t.Errorf("got %s, want %s", report.GetMessage(), want)
	}
	w.hub.remove(orphan)
	w.hub.await(t, orphan, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	for name, owner := range map[string]string{"kept": "", "left": detach, "o": ""} {
		w.mustData(name, "1")
		if obj, err := w.get("v1", "ConfigMap", w.namespace, name); err != nil || object.Owner(obj) != owner {
			t.Errorf("%s belongs to %q: %v", name, object.Owner(obj), err)
		}
	}
	w.mustBeGone("v1", "ConfigMap", "fairlead-system", "inventory."+orphan)
	// Switched on again, what was left goes.
	w.hub.awaitPhase(t, detach,
		w.hub.pushSynced(t, detach, w.namespace, map[string]string{"b.yaml": configMap("d", "3")}, nil), healthy)
	w.mustBeGone("v1", "ConfigMap", w.namespace, "left")
}

// Killed at each step of an apply with waves, hooks, a removal and an object that is made anew.
func TestKillAtAnyStepOfALargerApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.service("all")
	files := func(value string) map[string]string {
		return map[string]string{
			"a.yaml": annotated("early", value, `fairlead.dev/wave: "-1"`), "b.yaml": annotated("usual", value, ""),
			"c.yaml": annotated("hook", value, "fairlead.dev/hook: post-sync, fairlead.dev/hook-delete: succeeded"),
			"d.yaml": "apiVersion: v1\nkind: ConfigMap\nimmutable: true\nmetadata: {name: anew, annotations: {fairlead.dev/recreate: allowed}}\ndata: {x: \"" + value + "\"}\n",
			"e.yaml": annotated("gone"+value, value, ""),
		}
	}
	kill := w.process()
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files("0")), healthy)
	for i, step := range []struct{ method, ending string }{
		{http.MethodPut, "/configmaps/inventory." + name},
		{http.MethodPatch, "/configmaps/early"},
		{http.MethodPatch, "/configmaps/usual"},
		{http.MethodDelete, "/configmaps/anew"},
		{http.MethodPatch, "/configmaps/hook"},
		{http.MethodDelete, "/configmaps/hook"},
		{http.MethodDelete, "/configmaps/gone5"},
	} {
		value := fmt.Sprint(i)
		if i == 0 {
			value = "first"
		}
		reached := w.api.stallOn(step.method, step.ending)
		digest := w.hub.push(t, name, w.namespace, files(value))
		waitFor(t, reached, step.method+" "+step.ending)
		kill()
		w.api.set(nil)
		kill = w.process()
		w.hub.awaitPhase(t, name, digest, healthy)
		for _, object := range []string{"early", "usual", "anew", "gone" + value} {
			w.mustData(object, value)
		}
		w.mustBeGone("v1", "ConfigMap", w.namespace, "hook")
		if record := w.record(name); !record.Has(digest) || len(record.Entries) != 4 {
			t.Errorf("killed at %s %s: inventory %+v", step.method, step.ending, record)
		}
		found, err := w.cluster.ConfigMaps(w.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(found.Items) != 5 { // kube-root-ca.crt
			t.Errorf("killed at %s %s: %d ConfigMaps are left, %v", step.method, step.ending, len(found.Items), err)
		}
	}
}

// lax lets a service shrink as much as a test wants.
func lax() *deliveryv1.SyncSpec {
	return &deliveryv1.SyncSpec{Prune: &deliveryv1.PruneSpec{MaxPercent: new(int32(100))}}
}

// Below ten objects, too.
func TestGuardOfFewObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	files := map[string]string{}
	for i := range 5 {
		files[fmt.Sprint(i, ".yaml")] = configMap(fmt.Sprint("NAME-", i), "1")
	}
	hooks := annotated("NAME-hook", "1", "fairlead.dev/hook: post-sync")
	for name, one := range map[string]struct {
		next    map[string]string
		percent *int32
		guarded bool
	}{
		"most": {map[string]string{"0.yaml": configMap("NAME-0", "1")}, nil, true},
		"others": {
			map[string]string{"x.yaml": configMap("NAME-x", "1"), "y.yaml": configMap("NAME-y", "1")}, nil, true,
		},
		"hooks":   {map[string]string{"h.yaml": hooks}, new(int32(100)), true},
		"allowed": {map[string]string{"0.yaml": configMap("NAME-0", "1")}, new(int32(100)), false},
		"few": {
			map[string]string{
				"0.yaml": configMap("NAME-0", "1"), "1.yaml": configMap("NAME-1", "1"),
				"2.yaml": configMap("NAME-2", "1"),
			},
			nil, false,
		},
		"threshold": {
			map[string]string{
				"0.yaml": configMap("NAME-0", "1"), "1.yaml": configMap("NAME-1", "1"),
				"2.yaml": configMap("NAME-2", "1"),
			},
			new(int32(20)), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			service := w.service(name)
			of := func(files map[string]string) map[string]string {
				out := map[string]string{}
				for file, text := range files {
					out[file] = strings.ReplaceAll(text, "NAME", name)
				}
				return out
			}
			spec := &deliveryv1.SyncSpec{Prune: &deliveryv1.PruneSpec{MaxPercent: one.percent}}
			w.hub.awaitPhase(t, service, w.hub.pushSynced(t, service, w.namespace, of(files), spec), healthy)
			digest := w.hub.pushSynced(t, service, w.namespace, of(one.next), spec)
			report := w.hub.await(t, service, func(r *deliveryv1.ServiceReport) bool {
				return r.GetDigest() == digest && r.GetPhase() != deliveryv1.Phase_PHASE_APPLYING
			})
			if guarded := report.GetPhase() == waiting && report.GetGuard().GetId() != ""; guarded != one.guarded {
				t.Errorf("got %v", report)
			}
			if one.guarded {
				w.mustData(name+"-4", "1")
			} else {
				w.mustBeGone("v1", "ConfigMap", w.namespace, name+"-4")
			}
		})
	}
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
