package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/object"
)

// Charts bring the definitions of other charts along.
func TestDefinitionThatAnotherHasIsLeftToIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	first, second, third, group := w.service("first"), w.service("second"), w.service("third"), w.namespace+".dev"
	named := func(definition string) string {
		return strings.Replace(crd(group), "metadata: {name: rafts."+group+"}",
			"metadata: {name: rafts."+group+", labels: {of: "+definition+"}}", 1)
	}
	w.hub.awaitPhase(t, first,
		w.hub.push(t, first, w.namespace, map[string]string{
			"crds/a.yaml": named("first"), "b.yaml": raft(group, "first"),
		}), healthy)
	files := map[string]string{
		"crds/a.yaml": named("second"), "b.yaml": raft(group, "second"), "c.yaml": configMap("c", "1"),
	}
	want := fmt.Sprintf("CustomResourceDefinition rafts.%s belongs to service %q, and is left as it is.", group, first)
	told := func(digest, want string) func(*deliveryv1.ServiceReport) bool {
		return func(r *deliveryv1.ServiceReport) bool {
			return r.GetDigest() == digest && r.GetPhase() == healthy && r.GetMessage() == want
		}
	}
	w.hub.await(t, second, told(w.hub.push(t, second, w.namespace, files), want))
	if _, err := w.get(group+"/v1", "Raft", w.namespace, "second"); err != nil {
		t.Error(err)
	}
	w.secondPass(second, files)
	// Its owner goes on with it.
	w.hub.awaitPhase(t, first,
		w.hub.push(t, first, w.namespace, map[string]string{
			"crds/a.yaml": named("newer"), "b.yaml": raft(group, "first"),
		}), healthy)
	definition, err := w.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "rafts."+group)
	if err != nil || definition.GetLabels()["of"] != "newer" || object.Owner(definition) != first {
		t.Errorf("got %v, %v", definition.GetLabels(), err)
	}
	w.hub.remove(second)
	w.hub.await(t, second, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	if _, err := w.get(group+"/v1", "Raft", w.namespace, "first"); err != nil {
		t.Error(err)
	}
	// One of Helm's stays Helm's; once nobody has it, the next revision takes it over.
	other := crd("other." + group)
	helms := strings.Replace(other, "metadata: {",
		`metadata: {labels: {app.kubernetes.io/managed-by: Helm}, annotations: {meta.helm.sh/release-name: boats, meta.helm.sh/release-namespace: sea}, `, 1)
	kubectl(w, helms, "apply", "-f", "-")
	files = map[string]string{"crds/a.yaml": other, "c.yaml": configMap("d", "1")}
	want = "CustomResourceDefinition rafts.other." + group + " belongs to Helm release sea/boats, and is left as it is."
	w.hub.await(t, third, told(w.hub.push(t, third, w.namespace, files), want))
	kubectl(w, "", "delete", "crd", "rafts.other."+group)
	files["c.yaml"] = configMap("d", "2")
	w.hub.await(t, third, told(w.hub.push(t, third, w.namespace, files), ""))
	if definition, err := w.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "",
		"rafts.other."+group); err != nil || object.Owner(definition) != third {
		t.Errorf("it was not made: %v", err)
	}
}

// Some definitions come near to what the API server takes at all.
func TestLargeDefinitionComesBesideAnObjectOfItsKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, group := w.service("large"), w.namespace+".dev"
	var long strings.Builder // not the same over and over, which no artifact may be
	for i := 0; long.Len() < 1_300_000; i++ {
		fmt.Fprintf(&long, "%x-", i*i)
	}
	files := map[string]string{
		"a.yaml": raft(group, "one"),
		"b.yaml": strings.Replace(crd(group), "{type: object, ", "{type: object, description: \""+long.String()+
			"\", ", 1),
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	w.secondPass(name, files)
}

// A definition that several services bring goes with the last of them.
func TestDefinitionOutlivesItsOwnerWhereAnotherServiceHasIt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		sync *deliveryv1.SyncSpec
		part func(w *world, first string) // the owner lets go of it
	}{
		{"removed", nil, func(w *world, first string) {
			w.hub.remove(first)
			w.hub.await(w.t, first, gone)
		}},
		{"left", &deliveryv1.SyncSpec{Adoption: deliveryv1.Adoption_ADOPTION_NEVER}, func(w *world, first string) {
			w.hub.awaitPhase(w.t, first,
				w.hub.push(w.t, first, w.namespace, map[string]string{"c.yaml": configMap("first", "2")}), healthy)
		}},
		{"orphan", nil, func(w *world, first string) {
			digest := w.hub.sync(first, &deliveryv1.SyncSpec{OnDelete: deliveryv1.DeletePolicy_DELETE_POLICY_ORPHAN})
			w.hub.awaitPhase(w.t, first, digest, healthy)
			w.hub.remove(first)
			w.hub.await(w.t, first, gone)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			stop := w.start()
			first, second, group := w.service("first"), w.service("second"), w.namespace+".dev"
			read := func() *unstructured.Unstructured {
				t.Helper()
				definition, err := w.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "rafts."+group)
				if err != nil {
					t.Fatal(err)
				}
				return definition
			}
			labelled := strings.Replace(crd(group), "{name: rafts."+group+"}",
				"{name: rafts."+group+", labels: {of: second}}", 1)
			w.hub.awaitPhase(t, first,
				w.hub.push(t, first, w.namespace, map[string]string{
					"a.yaml": crd(group), "c.yaml": configMap("first", "1"),
				}), healthy)
			digest := w.hub.pushSynced(t, second, w.namespace,
				map[string]string{"a.yaml": labelled, "c.yaml": configMap("second", "1")}, test.sync)
			w.hub.awaitPhase(t, second, digest, healthy)
			before := read()
			stop() // which one left it to which is in the cluster
			w.start()
			test.part(w, first)
			w.hub.await(t, second, func(r *deliveryv1.ServiceReport) bool {
				return r.GetDigest() == digest && r.GetPhase() == healthy && r.GetMessage() == ""
			})
			if after := read(); after.GetUID() != before.GetUID() || object.Owner(after) != second ||
				after.GetLabels()["of"] != "second" {
				t.Errorf("got %s %v, want %s of %s", after.GetUID(), after.GetLabels(), before.GetUID(), second)
			}
			if record := w.record(second); len(record.Left) > 0 || len(record.Entries) != 2 {
				t.Errorf("the inventory has %+v", record)
			}
			w.hub.remove(second)
			w.hub.await(t, second, gone)
			w.mustBeGone("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "rafts."+group)
		})
	}
}

func TestDefinitionGoesWithAllServicesThatHaveIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	first, second, group := w.service("first"), w.service("second"), w.namespace+".dev"
	for _, name := range []string{first, second} {
		w.hub.awaitPhase(t, name,
			w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": crd(group), "c.yaml": configMap(name, "1")}),
			healthy)
	}
	w.hub.remove(first, second)
	w.hub.await(t, first, gone)
	w.hub.await(t, second, gone)
	w.mustBeGone("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "rafts."+group)
}
