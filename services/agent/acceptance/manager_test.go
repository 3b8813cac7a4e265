package acceptance

import (
	"maps"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/inventory"
)

// managed is a chart whose objects say who manages them, once in a selector that can't be changed.
func managed(files map[string]string) map[string]string {
	chart := map[string]string{
		"Chart.yaml":       "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"templates/a.yaml": configMap("a", "{{ .Release.Service }}"),
	}
	maps.Copy(chart, files)
	return chart
}

const selecting = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {heritage: MANAGER}}
  template: {metadata: {labels: {heritage: MANAGER}}, spec: {containers: [{name: c, image: pause}]}}
`

// appliedByAnOlderAgent takes from an inventory what agents did not note when they called themselves the manager.
func (w *world) appliedByAnOlderAgent(service string) {
	w.t.Helper()
	store := inventory.New(w.cluster.ConfigMaps(inventory.Namespace), w.cluster)
	if err := store.Load(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	record, err := store.Get(w.t.Context(), service)
	if err != nil {
		w.t.Fatal(err)
	}
	if record.Applied.ReleaseService != "Helm" {
		w.t.Errorf("the inventory says %q", record.Applied.ReleaseService)
	}
	record.Applied.ReleaseService = ""
	if err := store.Save(w.t.Context(), record); err != nil {
		w.t.Fatal(err)
	}
}

// A chart's objects are those of a Helm release. A service that an agent applied as Fairlead stays so until folder or
// values change.
func TestReleaseServiceIsHelmOnceTheContentChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("chart")
	first := w.hub.push(t, name, w.namespace, managed(nil))
	w.hub.awaitPhase(t, name, first, healthy)
	if got := w.value("a"); got != "Helm" {
		t.Errorf("a new service says %q", got)
	}
	stop()
	w.appliedByAnOlderAgent(name)
	w.start()
	for range 2 {
		asked := w.hub.sync(name, &deliveryv1.SyncSpec{RequestTime: timestamppb.Now()}) // a sync renders once more
		w.hub.awaitPhase(t, name, asked, healthy)
		if got := w.value("a"); got != "Fairlead" {
			t.Errorf("the same content says %q", got)
		}
	}
	second := w.hub.push(t, name, w.namespace, managed(map[string]string{"values.yaml": "new: true\n"}))
	w.hub.awaitPhase(t, name, second, healthy)
	if got := w.value("a"); got != "Helm" {
		t.Errorf("other values leave it at %q", got)
	}
}

// A selector can't be changed: as long as one in the cluster says Fairlead, the whole release does, so that all labels
// fit it.
func TestReleaseServiceStaysWhereASelectorHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("chart")
	applied := func(digest string) {
		t.Helper()
		w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetAppliedDigest() == digest })
	}
	applied(w.hub.push(t, name, w.namespace,
		managed(map[string]string{"templates/b.yaml": strings.ReplaceAll(selecting, "MANAGER", "Fairlead")})))
	stop()
	w.appliedByAnOlderAgent(name)
	w.start()
	template := strings.ReplaceAll(selecting, "MANAGER", "{{ .Release.Service }}")
	for _, values := range []string{"round: 1\n", "round: 2\n"} {
		applied(w.hub.push(t, name, w.namespace,
			managed(map[string]string{"templates/b.yaml": template, "values.yaml": values})))
		if got := w.value("a"); got != "Fairlead" {
			t.Errorf("%s: it says %q", values, got)
		}
	}
	applied(w.hub.push(t, name, w.namespace, managed(nil)))
	applied(w.hub.push(t, name, w.namespace, managed(map[string]string{"templates/b.yaml": template})))
	if a, b := w.value("a"), w.field("apps/v1", "Deployment", "web", "spec", "selector", "matchLabels",
		"heritage"); a != "Helm" || b != "Helm" {
		t.Errorf("with no such selector left it says %q and %q", a, b)
	}
}

// A warning stays in the status for as long as what it is about. The inventory has it, for an agent that renders
// nothing.
func TestTheStatusWarnsOfWhatIsReadDifferently(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("chart")
	first := w.hub.push(t, name, w.namespace,
		managed(map[string]string{"templates/b.yaml": configMap("b", "1") + "kind: ConfigMap\n"}))
	const want = `b.yaml, document 1, line 5: key "kind" is there twice, and Helm takes the last.`
	if report := w.hub.awaitPhase(t, name, first, healthy); !strings.Contains(report.GetMessage(), want) {
		t.Errorf("got %q", report.GetMessage())
	}
	if got := w.record(name).Applied.Warnings; !strings.Contains(got, want) {
		t.Errorf("the inventory has %q", got)
	}
	second := w.hub.push(t, name, w.namespace, managed(nil))
	if report := w.hub.awaitPhase(t, name, second, healthy); report.GetMessage() != "" {
		t.Errorf("got %q", report.GetMessage())
	}
}
