package acceptance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
)

// phases are those that a service's reports went through since a number of them.
func (h *testHub) phases(service string, since int) []deliveryv1.Phase {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []deliveryv1.Phase
	for _, r := range h.reports[service][since:] {
		out = append(out, r.GetPhase())
	}
	return out
}

// One deletion that is repaired is no failure: the service is on its way until the object is back.
func TestADeletionThatIsRepairedIsNotDegraded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": configMap("a", "1") + "---\n" + configMap("b", "1"),
		}), healthy)
	before := len(w.hub.phases(name, 0))
	w.kubectl("delete", "configmap", "a")
	report := w.hub.await(t, name,
		func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == healthy && r.GetRepairs() == 1 })
	if w.value("a") != "1" || report.GetRepaired().GetName() != "a" ||
		report.GetRepaired().GetMessage() != "it had been deleted" {
		t.Errorf("the repair is told as %v", report.GetRepaired())
	}
	if slices.Contains(w.hub.phases(name, before), degraded) {
		t.Error("the service was degraded meanwhile")
	}
}

// A repair is told with who had changed which fields, also the first time.
func TestARepairNamesTheManagerAndTheFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	w.kubectl("patch", "configmap", "a", "--type=merge", "--field-manager=ada", `-p={"data":{"x":"2"}}`)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetRepairs() == 1 && r.GetRepaired().GetRival() == "ada" &&
			slices.Equal(r.GetRepaired().GetFields(), []string{"/data/x"})
	})
}

// An object that is deleted again and again is made again with pauses. While it is there the service is healthy, and
// while it is missing the report says when the next attempt is.
func TestADeletionAgainAndAgainSaysWhenTheNextAttemptIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": configMap("a", "1") + "---\n" + configMap("b", "1"),
		}), healthy)
	fought := func(r *deliveryv1.ServiceReport) bool {
		return strings.Contains(r.GetMessage(), "somebody keeps deleting it")
	}
	for rounds := 0; ; rounds++ {
		if rounds == 7 {
			t.Fatal("nobody is said to keep deleting it")
		}
		w.kubectl("delete", "configmap", "a")
		isTold := false
		await.True(w.t, "it is made again, or a pause begins", func() bool {
			isTold = w.hub.said(name, fought)
			return isTold || w.value("a") == "1"
		})
		if isTold {
			break
		}
	}
	await.True(w.t, "it is back", func() bool { return w.value("a") == "1" })
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return fought(r) && r.GetPhase() == healthy })
	w.kubectl("delete", "configmap", "a")
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return fought(r) && r.GetPhase() == degraded &&
			slices.ContainsFunc(r.GetObjects(), func(o *deliveryv1.ObjectReport) bool {
				return o.GetName() == "a" && o.GetHealth() == "Missing" &&
					o.GetNextAttemptTime().AsTime().After(time.Now())
			})
	})
}

// A suspended service that others change is said to differ, by field and by manager, and a sync compares it anew;
// nothing is touched.
func TestSuspendedServicesSeeDrift(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]deliveryv1.SyncMode{
		"suspend": deliveryv1.SyncMode_SYNC_MODE_SUSPEND, "dry run": deliveryv1.SyncMode_SYNC_MODE_DRY_RUN,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start()
			name := w.service("hello")
			w.hub.awaitPhase(t, name,
				w.hub.push(t, name, w.namespace, map[string]string{
					"a.yaml": configMap("a", "1") + "---\n" + configMap("b", "1"),
				}), healthy)
			off := w.hub.sync(name, spec(mode, "a look"))
			w.hub.awaitPhase(t, name, off, healthy)
			w.kubectl("patch", "configmap", "a", "--type=merge", "--field-manager=ada", `-p={"data":{"x":"2"}}`)
			report := w.hub.awaitPhase(t, name, off, differs)
			isTold := slices.ContainsFunc(report.GetObjects(), func(o *deliveryv1.ObjectReport) bool {
				return o.GetName() == "a" && o.GetRival() == "ada" &&
					slices.Equal(o.GetFields(), []string{"/data/x"}) && o.GetDriftTime().IsValid()
			})
			if !isTold || report.GetObjectsDrifted() != 1 ||
				!strings.Contains(report.GetMessage(), "ada changed /data/x") {
				t.Errorf("the drift is told as %v", report)
			}
			w.hub.awaitDetail(t, name, func(d *deliveryv1.ServiceDetail) bool {
				return d.GetDiff() != nil && d.GetDigest() == off && changes(d.GetDiff())["a"] == "UPDATE" &&
					d.GetDiff().GetObjects()[0].GetFields()[0].GetManager() == "ada"
			})
			// A field that somebody adds is no drift of what is applied, and a sync says the same again.
			asked := spec(mode, "a look")
			asked.RequestTime = timestamppb.Now()
			again := w.hub.sync(name, asked)
			w.hub.awaitPhase(t, name, again, differs)
			w.hub.awaitDetail(t, name, func(d *deliveryv1.ServiceDetail) bool {
				return d.GetDiff() != nil && d.GetDigest() == again && changes(d.GetDiff())["a"] == "UPDATE"
			})
			w.mustData("a", "2")
			w.kubectl("delete", "configmap", "b")
			w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
				return r.GetPhase() != healthy && r.GetObjectsDrifted() == 2 &&
					strings.Contains(r.GetMessage(), "2 objects differ from what is applied") &&
					slices.ContainsFunc(r.GetObjects(), func(o *deliveryv1.ObjectReport) bool {
						return o.GetName() == "b" && o.GetMessage() == "it was deleted."
					})
			})
			w.mustBeGone("v1", "ConfigMap", w.namespace, "b")
		})
	}
}

// A service that waits for pods says what keeps them from running.
func TestUnschedulablePodsAndMissingClaimsSayTheirReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	deployment := func(pod string) map[string]string {
		return map[string]string{
			"web.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {" + pod + "containers: [{name: c, image: pause}]}}}\n",
		}
	}
	name := w.service("hello")
	w.hub.push(t, name, w.namespace, deployment("nodeSelector: {none: such}, "))
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == progressing && strings.Contains(r.GetMessage(), "pod web-*: Unschedulable: ") &&
			strings.Contains(r.GetMessage(), "didn't match Pod's node affinity/selector") &&
			strings.Contains(r.GetObjects()[0].GetMessage(), "Unschedulable")
	})
	w.hub.push(t, name, w.namespace, deployment("volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], "))
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return strings.Contains(r.GetMessage(), `persistentvolumeclaim "data" not found`)
	})
}
