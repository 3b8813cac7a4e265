package acceptance

import (
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/object"
)

const chartOnly = "apiVersion: v2\nname: web\nversion: 1.0.0\n"

// renders sets how a service is rendered from its next push on.
func (h *testHub) renders(service string, helm *deliveryv1.HelmSpec) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.rendering[service]
	one.spec = &deliveryv1.RenderSpec{Helm: helm}
	h.rendering[service] = one
}

// Flux makes the definitions of a chart that are missing, or leaves them alone, where its users say so.
func TestDefinitionsOfAChartAreAppliedMadeOrSkippedAsTheServiceSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, group := w.service("chart"), w.namespace+".dev"
	marked := func(mark string) string {
		return strings.Replace(crd(group), "metadata: {name: rafts."+group+"}",
			"metadata: {name: rafts."+group+", labels: {of: "+mark+"}}", 1)
	}
	definition := func() (labels map[string]string, owner string) {
		t.Helper()
		got, err := w.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "rafts."+group)
		if err != nil {
			t.Fatal(err)
		}
		return got.GetLabels(), object.Owner(got)
	}
	files := map[string]string{
		"Chart.yaml": chartOnly, "crds/raft.yaml": marked("first"), "templates/a.yaml": raft(group, "one"),
		"templates/b.yaml": configMap("b", "1"),
	}
	deliver := func(policy deliveryv1.CrdPolicy) {
		t.Helper()
		w.hub.renders(name, &deliveryv1.HelmSpec{Crds: policy})
		w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	}
	// The kind is not there, and nobody makes it.
	w.hub.renders(name, &deliveryv1.HelmSpec{Crds: deliveryv1.CrdPolicy_CRD_POLICY_SKIP})
	digest := w.hub.push(t, name, w.namespace, files)
	if report := w.hub.awaitPhase(t, name, digest,
		failed); !strings.Contains(report.GetMessage(), "kind Raft of "+group) {
		t.Errorf("skipped: %s", report.GetMessage())
	}
	// The definition is made, and nobody's.
	deliver(deliveryv1.CrdPolicy_CRD_POLICY_CREATE)
	if labels, owner := definition(); labels["of"] != "first" || owner != "" || labels[object.ServiceLabel] != "" {
		t.Errorf("made: %v of %q", labels, owner)
	}
	files["crds/raft.yaml"], files["templates/b.yaml"] = marked("second"), configMap("b", "2")
	deliver(deliveryv1.CrdPolicy_CRD_POLICY_CREATE)
	if labels, _ := definition(); labels["of"] != "first" {
		t.Errorf("it was updated: %v", labels)
	}
	w.forget()
	files["README.md"] = "another revision of the same objects"
	deliver(deliveryv1.CrdPolicy_CRD_POLICY_CREATE)
	for _, line := range w.api.since(0) {
		if strings.Contains(line, "customresourcedefinitions/") {
			t.Errorf("a second pass sent %s", line)
		}
	}
	// The definition is applied, and the service's own.
	deliver(deliveryv1.CrdPolicy_CRD_POLICY_APPLY)
	if labels, owner := definition(); labels["of"] != "second" || owner != name {
		t.Errorf("applied: %v of %q", labels, owner)
	}
	// The definition is left alone, and stays when the service goes.
	files["crds/raft.yaml"] = marked("third")
	deliver(deliveryv1.CrdPolicy_CRD_POLICY_SKIP)
	if labels, owner := definition(); labels["of"] != "second" || owner != "" || labels[object.ServiceLabel] != "" {
		t.Errorf("skipped: %v of %q", labels, owner)
	}
	w.mustBeThere(group, "one")
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	definition()
}

// mustBeThere wants a raft.
func (w *world) mustBeThere(group, name string) {
	w.t.Helper()
	if _, err := w.get(group+"/v1", "Raft", w.namespace, name); err != nil {
		w.t.Error(err)
	}
}

// A dry run of what is not there yet tells what would be made.
func TestADryRunTellsWhichDefinitionsWouldBeMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, group := w.service("chart"), w.namespace+".dev"
	w.hub.renders(name, &deliveryv1.HelmSpec{Crds: deliveryv1.CrdPolicy_CRD_POLICY_CREATE})
	w.hub.push(t, name, w.namespace, map[string]string{
		"Chart.yaml": chartOnly, "crds/raft.yaml": crd(group), "templates/a.yaml": raft(group, "one"),
	})
	digest := w.hub.sync(name, spec(deliveryv1.SyncMode_SYNC_MODE_DRY_RUN, ""))
	detail := w.hub.awaitDetail(t, name,
		func(d *deliveryv1.ServiceDetail) bool { return d.GetDiff() != nil && d.GetDigest() == digest })
	if got := changes(detail.GetDiff()); got["rafts."+group] != "CREATE" || got["one"] != "CREATE" {
		t.Errorf("diff: %v", got)
	}
}

// Argo CD's SkipDryRunOnMissingResource: the kind comes while the service is applied, from a wave before.
func TestAnObjectWhoseKindComesLaterIsNotTriedBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, group := w.service("late"), w.namespace+".dev"
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"b.yaml": configMap("b", "1")}),
		healthy)
	late := strings.Replace(raft(group, "one"), "{name: one}",
		`{name: one, annotations: {argocd.argoproj.io/sync-options: "SkipDryRunOnMissingResource=true,ServerSideApply=true", fairlead.dev/wave: "1"}}`, 1)
	files := map[string]string{"a.yaml": late, "b.yaml": configMap("b", "2"), "c.yaml": configMap("c", "1")}
	digest := w.hub.push(t, name, w.namespace, files)
	await.True(w.t, "what comes before it is applied", func() bool { return w.has("c") })
	kubectl(w, crd(group), "apply", "-f", "-")
	w.hub.awaitPhase(t, name, digest, healthy)
	w.mustBeThere(group, "one")
	w.secondPass(name, files)
	// An object that has no namespace turns out to be of the whole cluster.
	wide := strings.Replace(late, "one", "two", 1)
	wide = strings.NewReplacer(group+"/v1", "wide."+group+"/v1").Replace(wide)
	files["d.yaml"] = wide
	digest = w.hub.push(t, name, w.namespace, files)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == digest && strings.Contains(r.GetMessage(), "its kind")
	})
	kubectl(w, strings.Replace(crd("wide."+group), "Namespaced", "Cluster", 1), "apply", "-f", "-")
	w.hub.awaitPhase(t, name, digest, healthy)
	if _, err := w.get("wide."+group+"/v1", "Raft", "", "two"); err != nil {
		t.Error(err)
	}
}

// Argo CD's PruneLast: what left goes when all that came is healthy.
func TestWhatIsPrunedLastWaitsForTheHealthOfTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("last")
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": annotated("a", "1", "argocd.argoproj.io/sync-options: PruneLast=true"),
		"b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1"),
	}), healthy)
	w.hub.push(t, name, w.namespace, map[string]string{
		"c.yaml": configMap("c", "1"),
		"d.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: long}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {nodeSelector: {none: such}, containers: [{name: c, image: pause}]}}}\n",
	})
	await.True(w.t, "what is not pruned last is gone", func() bool { return !w.has("b") })
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == deliveryv1.Phase_PHASE_PROGRESSING && strings.Contains(r.GetMessage(), "long")
	})
	if !w.has("a") {
		t.Error("it went before the rest was healthy")
	}
	w.kubectl("scale", "deployment", "long", "--replicas=0")
	await.True(w.t, "it is gone", func() bool { return !w.has("a") })
}
