package acceptance

import (
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// counted is the value of a metric, or how many values a histogram has; with a label's value, of that.
func (w *world) counted(name, label string) float64 {
	w.t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, one := range family.GetMetric() {
			if label == "" && len(one.GetLabel()) == 0 ||
				len(one.GetLabel()) > 0 && one.GetLabel()[0].GetValue() == label {
				return one.GetCounter().GetValue() + float64(one.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

func TestMetricsSayWhyObjectsAreSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("counted")
	held := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, annotations: {fairlead.dev/hold: tested}}\n"
	files := map[string]string{"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"), "held.yaml": held}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	files["b.yaml"] = configMap("b", "2")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	for reason, want := range map[string]float64{"fresh": 2, "unchanged": 1, "changed": 1, "held": 2} {
		if got := w.counted("fairlead_agent_decisions_total", reason); got != want {
			t.Errorf("%s: %v objects, want %v", reason, got, want)
		}
	}
	if got := w.counted("fairlead_agent_render_seconds", ""); got != 2 {
		t.Errorf("%v renders", got)
	}
}

// A repair is told of: how many there were, when, and of what, also after a restart.
func TestRepairsAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("mended")
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"),
		}), healthy)
	told := func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == healthy && r.GetRepairs() == 1 && r.GetRepaired().GetName() == "b" &&
			r.GetRepairTime().IsValid()
	}
	kubectl(w, "", "patch", "configmap", "b", "--type=merge", `-p={"data":{"x":"2"}}`)
	w.hub.await(t, name, told)
	w.mustData("b", "1")
	stop()
	w.start()
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "2"), "b.yaml": configMap("b", "1"),
	})
	if r := w.hub.awaitPhase(t, name, digest, healthy); !told(r) {
		t.Errorf("after a restart: %v", r)
	}
}
