package acceptance

import (
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
)

const (
	held    = deliveryv1.Phase_PHASE_HELD
	waiting = deliveryv1.Phase_PHASE_WAITING
	differs = deliveryv1.Phase_PHASE_DIFFERS
)

func spec(mode deliveryv1.SyncMode, reason string) *deliveryv1.SyncSpec {
	return &deliveryv1.SyncSpec{Mode: mode, Reason: reason}
}

// changes of a diff, by name of the object.
func changes(d *deliveryv1.Diff) map[string]string {
	out := map[string]string{}
	for _, o := range d.GetObjects() {
		out[o.GetName()] = strings.TrimPrefix(o.GetChange().String(), "CHANGE_")
	}
	return out
}

func TestDryRunChangesNothingAndTellsTheDiff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var written atomic.Int32
	w.api.set(func(r *http.Request) int {
		if r.Method != http.MethodGet && !strings.Contains(r.URL.RawQuery, "dryRun=All") &&
			strings.Contains(r.URL.Path, "hello") {
			written.Add(1)
		}
		return 0
	})
	name := w.service("hello")
	w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1") + "---\n" + configMap("b", "1")})
	first := w.hub.sync(name, spec(deliveryv1.SyncMode_SYNC_MODE_DRY_RUN, "first look"))
	w.start()
	report := w.hub.awaitPhase(t, name, first, differs)
	if !strings.Contains(report.GetMessage(), "first look") ||
		!strings.Contains(report.GetMessage(), "2 would be created") {
		t.Errorf("message: %s", report.GetMessage())
	}
	detail := w.hub.awaitDetail(t, name,
		func(d *deliveryv1.ServiceDetail) bool { return d.GetDiff() != nil && d.GetDigest() == first })
	if got := changes(detail.GetDiff()); !maps.Equal(got, map[string]string{"a": "CREATE", "b": "CREATE"}) {
		t.Errorf("diff: %v", got)
	}
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
	w.mustBeGone("v1", "ConfigMap", inventory.Namespace, "inventory."+name)
	if n := written.Load(); n > 0 {
		t.Errorf("%d writes", n)
	}
	// A mistake is told as one.
	bad := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": "kind: ["})
	w.hub.awaitPhase(t, name, bad, failed)
	// Once it is applied, a dry run tells what others change, and leaves it.
	w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
	good := w.hub.sync(name, nil)
	w.hub.awaitPhase(t, name, good, healthy)
	again := w.hub.sync(name, spec(deliveryv1.SyncMode_SYNC_MODE_DRY_RUN, ""))
	w.hub.awaitPhase(t, name, again, healthy) // from now on nothing is repaired
	w.kubectl("patch", "configmap", "a", "--type=merge", `-p={"data":{"x":"other"}}`)
	w.hub.awaitPhase(t, name, again, differs)
	detail = w.hub.awaitDetail(t, name,
		func(d *deliveryv1.ServiceDetail) bool { return d.GetDiff() != nil && d.GetDigest() == again })
	if fields := detail.GetDiff().GetObjects()[0].GetFields(); len(fields) != 1 || fields[0].GetLive() != `"other"` ||
		fields[0].GetWanted() != `"1"` {
		t.Errorf("diff: %v", detail)
	}
	w.mustData("a", "other")
}

func TestHoldKeepsRepairingTheOldRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("hello")
	good := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1") + "---\n" + configMap("b", "1"),
	})
	w.hub.awaitPhase(t, name, good, healthy)
	on := w.hub.sync(name, spec(deliveryv1.SyncMode_SYNC_MODE_HOLD, "incident 7"))
	report := w.hub.awaitPhase(t, name, on, healthy)
	if report.GetAppliedDigest() != on || !strings.Contains(report.GetMessage(), "Held (incident 7)") {
		t.Errorf("nothing waits, and it says %v", report)
	}
	newer := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	report = w.hub.awaitPhase(t, name, newer, held)
	if report.GetAppliedDigest() != good || !strings.Contains(report.GetMessage(), "Held (incident 7)") ||
		report.GetObjectsHealthy() != 2 {
		t.Errorf("got %v", report)
	}
	detail := w.hub.awaitDetail(t, name,
		func(d *deliveryv1.ServiceDetail) bool { return d.GetDiff() != nil && d.GetDigest() == newer })
	if got := changes(detail.GetDiff()); !maps.Equal(got, map[string]string{"a": "UPDATE", "b": "REMOVE"}) {
		t.Errorf("diff: %v", got)
	}
	// Over a restart, too, and what is gone of the old one is made anew.
	stop()
	w.delete("a")
	w.start()
	await.True(w.t, "it comes back",
		func() bool { _, err := w.get("v1", "ConfigMap", w.namespace, "a"); return err == nil })
	w.kubectl("patch", "configmap", "b", "--type=merge", `-p={"data":{"x":"other"}}`)
	await.True(w.t, "it is put right", func() bool {
		obj, err := w.get("v1", "ConfigMap", w.namespace, "b")
		return err == nil && obj.Object["data"].(map[string]any)["x"] == "1"
	})
	w.mustData("a", "1")
	w.mustData("b", "1")
	off := w.hub.sync(name, nil)
	w.hub.awaitPhase(t, name, off, healthy)
	w.mustData("a", "2")
	w.mustBeGone("v1", "ConfigMap", w.namespace, "b")
	w.hub.awaitDetail(t, name, func(d *deliveryv1.ServiceDetail) bool {
		return d.GetDigest() == off && len(d.GetObjects().GetObjects()) == 1 &&
			d.GetObjects().GetObjects()[0].GetUid() != ""
	})
}

// An object that an apply was about to change has no sum in the inventory, as one that is on its way out has none.
func TestHoldInTheMiddleOfAnApplyRemovesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": configMap("a", "1") + "---\n" + configMap("b", "1"),
		}), healthy)
	stuck := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: db}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {nodeSelector: {none: such}, containers: [{name: c, image: pause}]}}}\n"
	w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": annotated("a", "2", `fairlead.dev/wave: "1"`) + "---\n" + configMap("b", "1"), "d.yaml": stuck,
	})
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return strings.Contains(r.GetMessage(), "what comes after it waits")
	})
	w.hub.awaitPhase(t, name, w.hub.sync(name, spec(deliveryv1.SyncMode_SYNC_MODE_HOLD, "")), held)
	w.mustData("a", "1")
	w.mustData("b", "1")
	if _, err := w.get("apps/v1", "Deployment", w.namespace, "db"); err != nil {
		t.Errorf("what was applied already is gone: %v", err)
	}
}

func TestHoldByAnnotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	annotate := func(value string) {
		t.Helper()
		if out, err := kube.Cluster(t).Kubectl(t.Context(), "", "annotate", "configmap", "-n", inventory.Namespace,
			"inventory."+name, value); err != nil {
			t.Fatal(out, err)
		}
	}
	annotate("fairlead.dev/hold=ada looks at it")
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return strings.Contains(r.GetMessage(), "annotation") && r.GetPhase() == healthy
	})
	newer := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	report := w.hub.awaitPhase(t, name, newer, held)
	if !strings.Contains(report.GetMessage(), "(ada looks at it)") {
		t.Errorf("message: %s", report.GetMessage())
	}
	w.mustData("a", "1")
	annotate("fairlead.dev/hold-")
	w.hub.awaitPhase(t, name, newer, healthy)
	w.mustData("a", "2")
}

// An agent that starts does not know of annotations by its watches yet.
func TestHoldByAnnotationHoldsFromTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	stop()
	if out, err := kube.Cluster(t).Kubectl(t.Context(), "", "annotate", "configmap", "-n", inventory.Namespace,
		"inventory."+name, "fairlead.dev/hold=ada"); err != nil {
		t.Fatal(out, err)
	}
	newer := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	w.api.set(func(r *http.Request) int {
		if query := r.URL.Query(); query.Has("watch") && strings.Contains(query.Get("labelSelector"), inventory.Label) {
			return http.StatusServiceUnavailable
		}
		return 0
	})
	w.start()
	w.hub.awaitPhase(t, name, newer, held)
	w.mustData("a", "1")
	if out, err := kube.Cluster(t).Kubectl(t.Context(), "", "annotate", "configmap", "-n", inventory.Namespace,
		"inventory."+name, "fairlead.dev/hold-"); err != nil {
		t.Fatal(out, err)
	}
	w.api.set(nil)
	w.hub.awaitPhase(t, name, newer, healthy)
	w.mustData("a", "2")
}

func TestSuspendKeepsItsHandsOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.service("hello")
	stop := w.start()
	good := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "1") + "---\n" + configMap("b", "1"),
	})
	w.hub.awaitPhase(t, name, good, healthy)
	stop()
	off := w.hub.sync(name, spec(deliveryv1.SyncMode_SYNC_MODE_SUSPEND, "moving"))
	w.delete("a")
	w.start()
	report := w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == off && strings.Contains(r.GetMessage(), "Suspended (moving)")
	})
	if report.GetAppliedDigest() != off {
		t.Errorf("got %v", report)
	}
	newer := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	w.hub.awaitPhase(t, name, newer, held)
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
	w.mustData("b", "1")
	w.hub.awaitPhase(t, name, w.hub.sync(name, nil), healthy)
	w.mustData("a", "2")
}

func TestDependencyWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	db, web := w.service("db"), w.service("web")
	// The database can't be scheduled.
	stuck := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: db}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {nodeSelector: {none: such}, containers: [{name: c, image: pause}]}}}\n"
	w.hub.push(t, web, w.namespace, map[string]string{"a.yaml": configMap("web", "1")})
	waits := w.hub.sync(web, &deliveryv1.SyncSpec{DependsOn: []string{db}})
	report := w.hub.awaitPhase(t, web, waits, waiting)
	if !strings.Contains(report.GetMessage(), "not meant for this cluster") {
		t.Errorf("message: %s", report.GetMessage())
	}
	w.hub.awaitPhase(t, db, w.hub.push(t, db, w.namespace, map[string]string{"d.yaml": stuck}), progressing)
	w.hub.await(t, web, func(r *deliveryv1.ServiceReport) bool {
		return strings.Contains(r.GetMessage(), "is not healthy")
	})
	w.mustBeGone("v1", "ConfigMap", w.namespace, "web")
	w.hub.awaitPhase(t, db, w.hub.push(t, db, w.namespace, map[string]string{
		"d.yaml": strings.Replace(stuck, "nodeSelector: {none: such}, ", "", 1),
	}), healthy)
	w.hub.awaitPhase(t, web, waits, healthy)
	w.mustData("web", "1")
	// The applied content stays, whatever becomes of the other.
	w.hub.awaitPhase(t, db, w.hub.push(t, db, w.namespace, map[string]string{"d.yaml": stuck}), progressing)
	if report := w.hub.awaitPhase(t, web, waits, healthy); report.GetMessage() != "" {
		t.Errorf("got %v", report)
	}
}

func TestOrphansStayWithoutTheMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	// Only just before it goes: nothing is applied by it any more.
	w.hub.sync(name, &deliveryv1.SyncSpec{
		Mode: deliveryv1.SyncMode_SYNC_MODE_SUSPEND, OnDelete: deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN,
	})
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return strings.Contains(r.GetMessage(), "Suspended")
	})
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.mustData("a", "1")
	obj, err := w.get("v1", "ConfigMap", w.namespace, "a")
	if err != nil || object.Owner(obj) != "" {
		t.Errorf("%v, %v", obj.GetLabels(), err)
	}
	w.mustBeGone("v1", "ConfigMap", inventory.Namespace, "inventory."+name)
}

func (w *world) kubectl(args ...string) {
	w.t.Helper()
	if out, err := kube.Cluster(w.t).Kubectl(w.t.Context(), "", append(args, "-n", w.namespace)...); err != nil {
		w.t.Fatal(out, err)
	}
}

// delete removes a ConfigMap behind the agent's back.
func (w *world) delete(name string) {
	w.t.Helper()
	obj, err := w.cluster.Get(w.t.Context(), object.Ref{
		Key: object.Key{Kind: "ConfigMap", Namespace: w.namespace, Name: name}, Version: "v1",
	})
	if err == nil {
		err = w.cluster.Delete(w.t.Context(), object.RefOf(obj), obj.GetUID())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
