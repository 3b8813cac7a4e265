package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/services/agent"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
)

var (
	getOptions   = metav1.GetOptions{}
	patchOptions = metav1.PatchOptions{FieldManager: "somebody"}
)

func TestFolderIsAppliedChangedAndPruned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.service("hello")
	first := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml":     configMap("a", "1") + "---\n" + configMap("b", "1"),
		"sub/c.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"x":"1"}}`,
		"README.md":  "no",
	})
	w.start()
	report := w.hub.awaitPhase(t, name, first, healthy)
	if report.GetObjectsTotal() != 3 || report.GetObjectsHealthy() != 3 || report.GetAppliedDigest() != first ||
		report.GetAppliedCommit() == "" || report.GetAppliedTime() == nil {
		t.Errorf("got %v", report)
	}
	w.mustData("a", "1")
	w.mustData("c", "1")
	obj, err := w.get("v1", "ConfigMap", w.namespace, "a")
	if err != nil || object.Owner(obj) != name {
		t.Errorf("the object is not marked as ours: %v %v", obj.GetLabels(), err)
	}

	second := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": configMap("a", "2"), "d.yaml": configMap("d", "2"),
	})
	w.hub.awaitPhase(t, name, second, healthy)
	w.mustData("a", "2")
	w.mustData("d", "2")
	w.mustBeGone("v1", "ConfigMap", w.namespace, "b")
	w.mustBeGone("v1", "ConfigMap", w.namespace, "c")
	record := w.record(name)
	if !record.Has(second) || len(record.Entries) != 2 || record.Entries[0].UID == "" || record.Entries[0].Sum == 0 ||
		record.Entries[0].Owned == 0 {
		t.Errorf("inventory: %+v", record)
	}

	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
	w.mustBeGone("v1", "ConfigMap", w.namespace, "d")
	w.mustBeGone("v1", "ConfigMap", "fairlead-system", "inventory."+name)
}

func TestInvalidManifestsKeepThePreviousState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{
			"type",
			map[string]string{
				"a.yaml": configMap("NAME-a", "2"),
				"config.yaml": configMap("NAME-c", "2") +
					"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME-b}\ndata: {x: 1}\n",
			},
			"ConfigMap NS/NAME-b (apps/hello/config.yaml, document 2): data.x: expected string, got integer. Fix the manifest and push; the previous state stays applied.",
		},
		{
			"syntax",
			map[string]string{"a.yaml": configMap("NAME-a", "2"), "b.yaml": "kind: [\n"},
			"apps/hello/b.yaml, document 1, line 1: is no valid YAML: did not find expected node content. Fix the manifest and push; the previous state stays applied.",
		},
		{
			"kind",
			map[string]string{
				"a.yaml": configMap("NAME-a", "2"),
				"b.yaml": "apiVersion: nope.dev/v1\nkind: Boat\nmetadata: {name: b}\n",
			},
			"Boat b (apps/hello/b.yaml, document 1): the cluster does not know kind Boat of nope.dev/v1. Install its CustomResourceDefinition, or mend apiVersion and kind. It is tried again; the previous state stays applied.",
		},
		{
			"field",
			map[string]string{
				"a.yaml": configMap("NAME-a", "2"),
				"b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME-b}\ndatta: {}\n",
			},
			"ConfigMap NS/NAME-b (apps/hello/b.yaml, document 1): datta: there is no such field. Fix the manifest and push; the previous state stays applied.",
		},
		{
			"twice",
			map[string]string{"a.yaml": configMap("NAME-a", "2"), "b.yaml": configMap("NAME-a", "3")},
			"apps/hello/b.yaml, document 1, line 1: ConfigMap NS/NAME-a is there twice, first in apps/hello/a.yaml, document 1. Remove one. Fix the manifest and push; the previous state stays applied.",
		},
		{
			"empty",
			map[string]string{"README.md": "all gone"},
			"holds no manifests (.yaml, .yml or .json). Nothing is removed for an empty folder: the 2 objects that were applied stay.",
		},
		{
			"kustomize",
			map[string]string{
				"kustomization.yaml": "resources: [a.yaml]\npatches:\n- {patch: \"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, $patch: delete}\"}\n",
				"a.yaml":             configMap("a", "1"),
			},
			"has a kustomization that builds no objects. Nothing is removed for an empty folder: the 2 objects that were applied stay.",
		},
		{
			"chart",
			map[string]string{
				"Chart.yaml":       "apiVersion: v2\nname: web\nversion: 1.0.0\n",
				"templates/a.yaml": "{{ if .Values.on }}" + configMap("a", "1") + "{{ end }}",
			},
			"has a chart that renders no objects with these values. Nothing is removed for an empty folder: the 2 objects that were applied stay.",
		},
	}
	for _, test := range tests {
		name := w.service(test.name)
		good := w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": configMap(test.name+"-a", "1"), "b.yaml": configMap(test.name+"-b", "1"),
		})
		w.hub.awaitPhase(t, name, good, healthy)
		files := map[string]string{}
		for file, content := range test.files {
			files[file] = strings.ReplaceAll(content, "NAME", test.name)
		}
		bad := w.hub.push(t, name, w.namespace, files)
		report := w.hub.awaitPhase(t, name, bad, failed)
		want := strings.NewReplacer("NS", w.namespace, "NAME", test.name).Replace(test.want)
		if !strings.Contains(report.GetMessage(), want) {
			t.Errorf("%s: message\n%s\nwant\n%s", test.name, report.GetMessage(), want)
		}
		if report.GetAppliedDigest() != good {
			t.Errorf("%s: applied digest %s, want the good one", test.name, report.GetAppliedDigest())
		}
		w.mustData(test.name+"-a", "1")
		w.mustData(test.name+"-b", "1")
		// The fix is not held back by the failure.
		fixed := w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": configMap(test.name+"-a", "3"), "b.yaml": configMap(test.name+"-b", "3"),
		})
		w.hub.awaitPhase(t, name, fixed, healthy)
		w.mustData(test.name+"-b", "3")
	}
}

func TestImmutableFieldIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("web")
	deployment := func(selector string) map[string]string {
		return map[string]string{
			"web.yaml": strings.ReplaceAll("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {selector: {matchLabels: {app: SEL}}, template: {metadata: {labels: {app: SEL}}, spec: {containers: [{name: c, image: pause}]}}}\n", "SEL", selector),
		}
	}
	good := w.hub.push(t, name, w.namespace, deployment("one"))
	w.hub.awaitPhase(t, name, good, healthy)
	bad := w.hub.push(t, name, w.namespace, deployment("two"))
	report := w.hub.awaitPhase(t, name, bad, failed)
	want := "Deployment " + w.namespace +
		"/web (apps/hello/web.yaml, document 1): spec.selector: field is immutable. It can't be changed on an existing object: undo the change, delete the object so that it is made anew, or allow that by its annotation fairlead.dev/recreate: allowed; the previous state stays applied."
	if report.GetMessage() != want {
		t.Errorf("got\n%s\nwant\n%s", report.GetMessage(), want)
	}
	if len(report.GetObjects()) != 1 || report.GetObjects()[0].GetHealth() != "Failed" {
		t.Errorf("objects: %v", report.GetObjects())
	}
}

func TestErrorsAboutSecretsCarryNoValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	const value = "hunter2hunter"
	for name, manifest := range map[string]string{
		"type":      "data: {password: 31415926}",
		"base64":    "data: {password: " + value + "}",
		"key":       "stringData: {\"a b\": " + value + "}",
		"label":     "stringData: {a: " + value + "}\nimmutable: " + value,
		"docker":    "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: " + value + "}",
		"map":       "data: " + value,
		"lines":     "immutable: \"x\\n  .data: expected map, got " + value + "\"",
		"structure": "data: {password: {deep: " + value + "}}",
	} {
		service := w.service(name)
		digest := w.hub.push(t, service, w.namespace, map[string]string{
			"s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\n" + manifest,
		})
		report := w.hub.awaitPhase(t, service, digest, failed)
		text := report.String()
		if strings.Contains(text, value) || strings.Contains(text, "31415926") {
			t.Errorf("%s: the report tells the value: %s", name, text)
		}
		if !strings.Contains(report.GetMessage(), "Secret "+w.namespace+"/"+name) {
			t.Errorf("%s: the report does not name the object: %s", name, report.GetMessage())
		}
	}
}

func TestObjectOfAnotherServiceIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	mine, other := w.service("mine"), w.service("other")
	w.hub.awaitPhase(t, mine,
		w.hub.push(t, mine, w.namespace, map[string]string{"a.yaml": configMap("shared", "mine")}), healthy)
	bad := w.hub.push(t, other, w.namespace, map[string]string{
		"a.yaml": configMap("shared", "other"), "b.yaml": configMap("own", "other"),
	})
	report := w.hub.awaitPhase(t, other, bad, failed)
	if want := `ConfigMap ` + w.namespace + `/shared (apps/hello/a.yaml, document 1): it belongs to service "` + mine +
		`"`; !strings.Contains(report.GetMessage(), want) {
		t.Errorf("got %s, want %s", report.GetMessage(), want)
	}
	w.mustData("shared", "mine")
	w.mustBeGone("v1", "ConfigMap", w.namespace, "own")
	// Once its owner lets go of it, the second may have it: without a push, within a few retries.
	w.hub.awaitPhase(t, mine, w.hub.push(t, mine, w.namespace, map[string]string{"a.yaml": configMap("else", "mine")}),
		healthy)
	w.hub.awaitPhase(t, other, bad, healthy)
	w.mustData("shared", "other")
}

// A service that was renamed is another one, which gets the objects of the one before: that is no failure.
func TestARenamedServiceWaitsForTheOneBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	before, after := w.service("before"), w.service("after")
	held := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [harbour.dev/hold]}\n"
	w.hub.awaitPhase(t, before, w.hub.push(t, before, w.namespace, map[string]string{"a.yaml": held}), healthy)
	w.hub.remove(before)
	says := func(text string) func(*deliveryv1.ServiceReport) bool {
		return func(r *deliveryv1.ServiceReport) bool { return strings.Contains(r.GetMessage(), text) }
	}
	w.hub.await(t, before, says("waits for its finalizers: harbour.dev/hold"))
	digest := w.hub.push(t, after, w.namespace, map[string]string{"a.yaml": configMap("held", "after")})
	w.hub.await(t, after, says(fmt.Sprintf(
		"Waits until service %q, which is being removed, has let go of ConfigMap %s/held; nothing was applied.", before, w.namespace)))
	w.release("held")
	w.hub.awaitPhase(t, after, digest, healthy)
	w.mustData("held", "after")
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	for _, report := range w.hub.reports[after] {
		if report.GetPhase() == failed {
			t.Errorf("it failed: %s", report.GetMessage())
		}
	}
}

// The agent may hear of the new name before the removal of the old one.
func TestARenamedServiceThatComesFirstWaitsForTheOneBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	before, after := w.service("before"), w.service("after")
	files := map[string]string{
		"a.yaml": configMap("moved", "1"),
		"b.yaml": "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n" +
			"spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Mi}}}\n",
	}
	w.hub.await(t, before, progressed(w.hub.push(t, before, w.namespace, files)))
	data := w.found("v1", "PersistentVolumeClaim", "data").GetUID()
	digest := w.hub.push(t, after, w.namespace, files)
	w.hub.await(t, after, func(r *deliveryv1.ServiceReport) bool {
		return strings.Contains(r.GetMessage(), fmt.Sprintf("in case service %q is about to let go", before))
	})
	w.hub.remove(before)
	w.hub.await(t, after, progressed(digest))
	w.mustData("moved", "1")
	claim := w.found("v1", "PersistentVolumeClaim", "data")
	if claim.GetUID() != data || claim.GetDeletionTimestamp() != nil || object.Owner(claim) != after {
		t.Errorf("the claim was made anew, or is of %q", object.Owner(claim))
	}
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	for _, report := range w.hub.reports[after] {
		if report.GetPhase() == failed {
			t.Errorf("it failed: %s", report.GetMessage())
		}
	}
}

// The agent may hear of both at once. The removal has less to do than the new name, and must not be through before that
// could say what it has. Services that are applied are not waited for.
func TestARenamedServiceKeepsItsDataWhenBothNamesComeAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	before, after, other := w.service("before"), w.service("after"), w.service("other")
	w.hub.awaitPhase(t, other,
		w.hub.push(t, other, w.namespace, map[string]string{"a.yaml": configMap("other", "1")}), healthy)
	files := map[string]string{
		"a.yaml": configMap("moved", "1"),
		"b.yaml": "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n" +
			"spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Mi}}}\n",
	}
	w.hub.await(t, before, progressed(w.hub.push(t, before, w.namespace, files)))
	data := w.found("v1", "PersistentVolumeClaim", "data").GetUID()
	stop()
	digest := w.hub.push(t, after, w.namespace, files)
	w.hub.remove(before)
	w.start()
	w.hub.await(t, after, progressed(digest))
	w.mustData("moved", "1")
	claim := w.found("v1", "PersistentVolumeClaim", "data")
	if claim.GetUID() != data || claim.GetDeletionTimestamp() != nil || object.Owner(claim) != after {
		t.Errorf("the claim was made anew, or is of %q", object.Owner(claim))
	}
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	for _, report := range w.hub.reports[before] {
		if strings.Contains(report.GetMessage(), fmt.Sprintf("whether service %q", other)) {
			t.Errorf("it waits for a service that is applied: %s", report.GetMessage())
		}
	}
}

// A service that nothing is applied of now takes its data over later: until then the data must not go with the service
// that had it, be that removed or given a folder without the claim.
func TestDataWaitsForAServiceThatIsKeptBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	claim := func(name string) string {
		return "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: " + name + "}\n" +
			"spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Mi}}}\n"
	}
	renamed, moved := w.service("renamed"), w.service("moved")
	w.hub.await(t, renamed, progressed(w.hub.push(t, renamed, w.namespace, map[string]string{
		"a.yaml": claim("frozen"), "b.yaml": claim("dry-run"), "c.yaml": claim("waiting"), "d.yaml": claim("nobodys"),
	})))
	w.hub.await(t, moved, progressed(w.hub.push(t, moved, w.namespace,
		map[string]string{"a.yaml": claim("moved"), "b.yaml": configMap("b", "1")})))
	before := map[string]string{}
	for _, name := range []string{"frozen", "dry-run", "waiting", "moved"} {
		before[name] = string(w.found("v1", "PersistentVolumeClaim", name).GetUID())
	}
	stop()
	frozen, dryRun, waits, manual := w.service("frozen"), w.service("dry-run"), w.service("waiting"), w.service("manual")
	w.hub.push(t, frozen, w.namespace, map[string]string{"a.yaml": claim("frozen")})
	w.hub.freeze(frozen, &deliveryv1.Freeze{Author: "user:ada"})
	w.hub.pushSynced(t, dryRun, w.namespace, map[string]string{"a.yaml": claim("dry-run")},
		&deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_DRY_RUN})
	w.hub.pushSynced(t, waits, w.namespace, map[string]string{"a.yaml": claim("waiting")},
		&deliveryv1.SyncSpec{DependsOn: []string{frozen}})
	w.hub.push(t, manual, w.namespace, map[string]string{"a.yaml": claim("moved")})
	w.hub.settings(manual, func(s *deliveryv1.ServiceDelivery) { s.Manual = true })
	w.hub.remove(renamed)
	left := w.hub.push(t, moved, w.namespace, map[string]string{"b.yaml": configMap("b", "2")})
	w.start()
	report := w.hub.await(t, renamed, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	if want := fmt.Sprintf("service %q has it in its manifests, too, and takes it over", frozen); !strings.Contains(report.GetMessage(), want) {
		t.Errorf("got %s, want %s", report.GetMessage(), want)
	}
	w.hub.await(t, moved, progressed(left))
	w.mustBeGone("v1", "PersistentVolumeClaim", w.namespace, "nobodys")
	must := func(name, owner string) {
		t.Helper()
		found := w.found("v1", "PersistentVolumeClaim", name)
		if string(found.GetUID()) != before[name] || object.Owner(found) != owner {
			t.Errorf("claim %s was made anew, or is of %q, want %q", name, object.Owner(found), owner)
		}
	}
	must("frozen", "")
	must("dry-run", "")
	must("waiting", "")
	must("moved", "")
	w.hub.await(t, frozen, progressed(w.hub.freeze(frozen, nil)))
	must("frozen", frozen)
}

// A service that is kept back gets other content, which does not have the data: the data goes with its service.
func TestDataIsNotKeptForContentThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	before, after := w.service("before"), w.service("after")
	claim := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n" +
		"spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Mi}}}\n"
	w.hub.await(t, before, progressed(w.hub.push(t, before, w.namespace, map[string]string{"a.yaml": claim})))
	hold := &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD}
	w.hub.awaitPhase(t, after,
		w.hub.pushSynced(t, after, w.namespace, map[string]string{"a.yaml": claim}, hold), held)
	w.hub.awaitPhase(t, after,
		w.hub.pushSynced(t, after, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}, nil), healthy)
	w.hub.remove(before)
	w.hub.await(t, before, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.mustBeGone("v1", "PersistentVolumeClaim", w.namespace, "data")
}

func TestObjectOfAnUnknownAgentsServiceIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": "a", "namespace": w.namespace, "labels": map[string]any{object.ServiceLabel: "elsewhere"},
		},
	}}
	if _, err := w.cluster.Apply(t.Context(), foreign, false); err != nil {
		t.Fatal(err)
	}
	w.start()
	name := w.service("mine")
	report := w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}), failed)
	if !strings.Contains(report.GetMessage(), `it belongs to service "elsewhere"`) ||
		!strings.Contains(report.GetMessage(), "nothing was applied") {
		t.Errorf("got %s", report.GetMessage())
	}
}

func TestBundleBringsItsOwnKindsAndNamespaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("boats")
	const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.harbour.dev}
spec:
  group: harbour.dev
  scope: Namespaced
  names: {kind: Boat, plural: boats}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {sails: {type: integer}}}}}}}]
`
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"a.yaml": "apiVersion: harbour.dev/v1\nkind: Boat\nmetadata: {name: dinghy}\nspec: {sails: 2}\n",
		"b.yaml": configMap("in-new", "1") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: " +
			w.namespace + "-new}\n",
		"z.yaml": crd + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " + w.namespace +
			"-new, namespace: wrong}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: \"it's:" + w.namespace + "\"}\n",
	})
	w.hub.awaitPhase(t, name, digest, healthy)
	boat, err := w.get("harbour.dev/v1", "Boat", w.namespace, "dinghy")
	if err != nil {
		t.Fatal(err)
	}
	if sails, _, _ := unstructured.NestedInt64(boat.Object, "spec", "sails"); sails != 2 {
		t.Errorf("got %v", boat)
	}
	if _, err := w.get("rbac.authorization.k8s.io/v1", "ClusterRole", "", "it's:"+w.namespace); err != nil {
		t.Error(err)
	}
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.mustBeGone("v1", "Namespace", "", w.namespace+"-new")
	w.mustBeGone("rbac.authorization.k8s.io/v1", "ClusterRole", "", "it's:"+w.namespace)
	w.mustBeGone("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "boats.harbour.dev")
}

// Pods that the API server refuses are no object of the service: its Deployment says why.
func TestDeploymentSaysWhyItsPodsCannotBeMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("web")
	digest := w.hub.push(t, name, w.namespace, map[string]string{
		"d.yaml": strings.Replace(webDeployment, "{containers", "{serviceAccountName: none-such, containers", 1),
	})
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetDigest() == digest && r.GetPhase() == progressing &&
			strings.Contains(r.GetMessage(), "its pods can't be made: ") &&
			strings.Contains(r.GetMessage(), `"none-such" not found`)
	})
}

func TestHealthIsFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("web")
	deployment := func(replicas, image string) map[string]string {
		return map[string]string{
			"d.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: " + replicas +
				", selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: " + image + "}]}}}\n",
		}
	}
	// Pods become ready in this cluster, so a deployment that asks for an impossible node stays in progress.
	stuck := strings.ReplaceAll(deployment("1", "x")["d.yaml"], "spec: {containers",
		"spec: {nodeSelector: {none: such}, containers")
	bad := w.hub.push(t, name, w.namespace, map[string]string{"d.yaml": stuck})
	report := w.hub.awaitPhase(t, name, bad, progressing)
	if report.GetAppliedDigest() != bad || len(report.GetObjects()) != 1 ||
		report.GetObjects()[0].GetHealth() != "Progressing" || report.GetMessage() == "" {
		t.Errorf("got %v", report)
	}
	// A new digest does not wait for the old one's health.
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, deployment("2", "pause")), healthy)
	// An object that goes is found missing and applied again.
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"d.yaml": stuck}), progressing)
	obj, err := w.get("apps/v1", "Deployment", w.namespace, "web")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.Delete(t.Context(), object.RefOf(obj), obj.GetUID()); err != nil {
		t.Fatal(err)
	}
	await.True(w.t, "the deployment comes back", func() bool {
		again, err := w.get("apps/v1", "Deployment", w.namespace, "web")
		return err == nil && again.GetUID() != obj.GetUID()
	})
}

func TestFinalizersAreWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("slow")
	held := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [harbour.dev/hold]}\n"
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": held, "b.yaml": configMap("b", "1")}), healthy)
	second := w.hub.push(t, name, w.namespace, map[string]string{"b.yaml": configMap("b", "2")})
	report := w.hub.awaitPhase(t, name, second, progressing)
	if !strings.Contains(report.GetMessage(), "waits for its finalizers: harbour.dev/hold") {
		t.Errorf("got %s", report.GetMessage())
	}
	w.release("held")
	w.hub.awaitPhase(t, name, second, healthy)
	if record := w.record(name); len(record.Entries) != 1 || !record.Has(second) {
		t.Errorf("inventory: %+v", record)
	}
}

// release takes the finalizers off a ConfigMap.
func (w *world) release(name string) {
	w.t.Helper()
	if _, err := kube.Cluster(w.t).Kubectl(w.t.Context(), "", "patch", "configmap", "-n", w.namespace, name,
		"--type=json", `-p=[{"op":"remove","path":"/metadata/finalizers"}]`); err != nil {
		w.t.Fatal(err)
	}
}

func TestPruneLeavesWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("hello")
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{
			"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"), "c.yaml": configMap("c", "1"),
		}), healthy)
	suspend := &deliveryv1.SyncSpec{Mode: deliveryv1.SyncMode_SYNC_MODE_SUSPEND}
	w.hub.awaitPhase(t, name, w.hub.sync(name, suspend), healthy) // else it would put right what is changed now
	kubectl := func(stdin string, args ...string) {
		t.Helper()
		if _, err := kube.Cluster(t).Kubectl(t.Context(), stdin,
			append([]string{"-n", w.namespace}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	kubectl("", "label", "configmap", "b", object.ServiceLabel+"-")
	kubectl("", "delete", "configmap", "c")
	kubectl("", "create", "configmap", "c")
	kubectl("", "label", "configmap", "c", object.ServiceLabel+"="+name)
	w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	w.hub.awaitPhase(t, name, w.hub.sync(name, nil), healthy)
	for _, kept := range []string{"b", "c"} {
		if _, err := w.get("v1", "ConfigMap", w.namespace, kept); err != nil {
			t.Errorf("%s is not ours any more, and was removed: %v", kept, err)
		}
	}
}

func TestOneBadServiceDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.api.set(func(r *http.Request) int {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/configmaps/bad") {
			return http.StatusServiceUnavailable
		}
		return 0
	})
	w.start()
	bad, good := w.service("bad"), w.service("good")
	digest := w.hub.push(t, bad, w.namespace, map[string]string{"a.yaml": configMap("bad", "1")})
	w.hub.awaitPhase(t, bad, digest, failed)
	w.hub.awaitPhase(t, good, w.hub.push(t, good, w.namespace, map[string]string{"a.yaml": configMap("good", "1")}),
		healthy)
	w.api.set(nil)
	w.hub.awaitPhase(t, bad, digest, healthy)
}

func TestHubAwayAfterRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	name := w.service("hello")
	first := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
	w.hub.awaitPhase(t, name, first, healthy)
	stop()
	// The inventory is lost and the hub is away: what is on disk is enough to apply again.
	if err := w.cluster.ConfigMaps("fairlead-system").Delete(t.Context(), "inventory."+name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.ConfigMaps(w.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.hub.setDown(true)
	w.start()
	await.True(w.t, "the object is back",
		func() bool { _, err := w.get("v1", "ConfigMap", w.namespace, "a"); return err == nil })
	w.hub.setDown(false)
	second := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	w.hub.awaitPhase(t, name, second, healthy)
}

func TestLostDiskFindsItsServicesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.start()
	stays, goes := w.service("stays"), w.service("goes")
	digest := w.hub.push(t, stays, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
	w.hub.awaitPhase(t, stays, digest, healthy)
	w.hub.awaitPhase(t, goes, w.hub.push(t, goes, w.namespace, map[string]string{"b.yaml": configMap("b", "1")}),
		healthy)
	stop()
	w.data = t.TempDir()
	w.hub.remove(goes)
	w.hub.mu.Lock()
	w.hub.joined = false
	w.hub.mu.Unlock()
	patches := w.api.patches("/configmaps/a")
	w.start()
	w.hub.await(t, goes, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.mustBeGone("v1", "ConfigMap", w.namespace, "b")
	// The counters were lost as well: the new report has to get above the old ones.
	w.hub.awaitPhase(t, stays, digest, healthy)
	if again := w.api.patches("/configmaps/a"); again != patches {
		t.Errorf("what was applied was applied again: %d patches, then %d", patches, again)
	}
}

func TestReportsAreSentUntilAcknowledged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.service("hello")
	w.hub.mu.Lock()
	w.hub.failing = 3
	w.hub.durable[name] = 41 // an earlier life of the agent
	w.hub.mu.Unlock()
	digest := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
	w.start()
	if report := w.hub.awaitPhase(t, name, digest, healthy); report.GetSequence() <= 41 {
		t.Errorf("sequence %d is not above what the hub had", report.GetSequence())
	}
}

func TestNudgeCausesSyncAndUnchangedCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start() // the hub says: poll again in an hour
	name := w.service("hello")
	await.True(w.t, "the agent watches", func() bool {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		return len(w.hub.watchers) > 0
	})
	digest := w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")})
	w.hub.awaitPhase(t, name, digest, healthy)
	w.viewed()
	before := w.api.count("")
	w.hub.mu.Lock()
	syncs := w.hub.syncs
	w.hub.nudge()
	w.hub.mu.Unlock()
	await.True(w.t, "a nudge causes a sync", func() bool {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		return w.hub.syncs > syncs
	})
	after := slices.DeleteFunc(w.api.since(before), func(line string) bool { // agents of other tests share the cluster
		// inventories have it in their names
		return strings.Contains(line, "/namespaces/") && !strings.Contains(line, w.namespace)
	})
	if len(after) > 0 {
		t.Errorf("an unchanged service costs requests: %v", after)
	}
}

func TestKillAtAnyStepLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settled, hit := w.service("settled"), w.service("hit")
	kill := w.process()
	w.hub.awaitPhase(t, settled, w.hub.push(t, settled, w.namespace, map[string]string{"s.yaml": configMap("s", "1")}),
		healthy)
	patches := w.api.patches("/configmaps/s")

	files := func(value string, names ...string) map[string]string {
		files := map[string]string{}
		for _, name := range names {
			files[name+".yaml"] = configMap(name, value)
		}
		return files
	}
	steps := []struct {
		what, method, ending string
		files                map[string]string
		gone                 []string
	}{
		{"the first inventory", "POST", "/namespaces/fairlead-system/configmaps", files("1", "a", "b", "c"), nil},
		{"a patch", "PATCH", "/configmaps/b", files("2", "a", "b", "c"), nil},
		{"the superset", "PUT", "/configmaps/inventory." + hit, files("3", "a", "b", "c", "d"), nil},
		{"a prune", "DELETE", "/configmaps/d", files("4", "a", "b", "c"), []string{"d"}},
		{"a second patch", "PATCH", "/configmaps/e", files("5", "a", "e"), []string{"b", "c"}},
	}
	for _, step := range steps {
		reached := w.api.stallOn(step.method, step.ending)
		digest := w.hub.push(t, hit, w.namespace, step.files)
		waitFor(t, reached, step.what)
		kill()
		w.api.set(nil)
		kill = w.process()
		w.hub.awaitPhase(t, hit, digest, healthy)
		for file := range step.files {
			obj, err := w.get("v1", "ConfigMap", w.namespace, strings.TrimSuffix(file, ".yaml"))
			if err != nil {
				t.Fatalf("killed at %s: %v", step.what, err)
			}
			if !strings.Contains(step.files[file], obj.Object["data"].(map[string]any)["x"].(string)) {
				t.Errorf("killed at %s: %s is not the latest", step.what, file)
			}
		}
		for _, name := range step.gone {
			w.mustBeGone("v1", "ConfigMap", w.namespace, name)
		}
		if record := w.record(hit); !record.Has(digest) || len(record.Entries) != len(step.files) {
			t.Errorf("killed at %s: inventory %+v", step.what, record)
		}
	}
	if again := w.api.patches("/configmaps/s"); again != patches {
		t.Errorf("the other service was applied again: %d patches, then %d", patches, again)
	}
	reached := w.api.stallOn("DELETE", "/configmaps/inventory."+hit)
	w.hub.remove(hit)
	waitFor(t, reached, "the removal of the inventory")
	kill()
	w.api.set(nil)
	w.process()
	w.hub.await(t, hit, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.mustBeGone("v1", "ConfigMap", "fairlead-system", "inventory."+hit)
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
}

// An agent with the join token of another cluster would remove everything: nobody wants it there.
func TestAgentOfAnotherClusterTouchesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.service("web")
	stop := w.start()
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}),
		healthy)
	stop()

	wrong := newWorld(t)
	wrong.hub.cluster = "prod"
	wrong.hub.remove(name)
	service, err := agent.New(wrong.config(), agent.Deps{
		Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = service.Run(ctx)
	if !errors.Is(err, inventory.ErrOtherCluster) ||
		!strings.Contains(err.Error(), `it is "edge", and the agent joined as "prod"`) {
		t.Errorf("it ended with %v", err)
	}
	w.mustData("a", "1")
}

// The database of a hub is lost, and a new hub has a cluster of the same name: it never wanted what is there.
func TestAnotherHubRemovesNothingThatItNeverWanted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.service("web")
	// join makes this the cluster of a hub, which gave it an UID.
	join := func(uid string) {
		w.loseDisk()
		token, _, err := w.hub.keys.Sign(identity.Identity{
			Kind: identity.KindAgent, Name: w.hub.cluster, ClusterUID: uid,
		}, identity.AgentLifetime)
		if err != nil {
			t.Fatal(err)
		}
		member, err := json.Marshal(map[string]any{
			"cluster": w.hub.cluster, "endpoints": map[string]any{"distributors": []string{w.hub.server.URL}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string][]byte{"token": []byte(token), "cluster.json": member} {
			if err := os.WriteFile(filepath.Join(w.data, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		w.hub.joined, w.hub.token = true, token
	}
	join(w.namespace + "-old")
	stop := w.start()
	files := map[string]string{"a.yaml": configMap("a", "1")}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	stop()
	join(w.namespace + "-new")
	w.hub.remove(name)
	stop = w.start()
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == failed && strings.Contains(r.GetMessage(), "another hub put it into this cluster")
	})
	w.mustData("a", "1")
	other := w.service("other")
	w.hub.awaitPhase(t, other, w.hub.push(t, other, w.namespace, files), failed)
	w.hub.remove(other)
	// Once the new hub has it in its catalog, the service is its own, over a restart, too.
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	stop()
	w.start()
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	w.mustBeGone("v1", "ConfigMap", w.namespace, "a")
}

// A cluster is deleted in the catalog and made again, and the running agent joins once more by a new join token.
func TestAnAgentThatJoinsAgainWhileItRunsRemovesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.service("web")
	w.hub.mu.Lock()
	w.hub.clusterUID = w.namespace + "-old"
	w.hub.mu.Unlock()
	running, err := agent.New(w.config(), agent.Deps{
		Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard(), Renderer: []string{os.Args[0], asRenderer},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = running.Run(t.Context())
	}()
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": configMap("a", "1")}), healthy)
	w.hub.mu.Lock()
	w.hub.joined, w.hub.token, w.hub.clusterUID = false, "of nobody", w.namespace+"-new"
	w.hub.mu.Unlock()
	w.hub.remove(name)
	waitFor(t, ended, "the end of the agent")
	if err == nil || !strings.Contains(err.Error(), "another cluster of the same name") {
		t.Errorf("the agent ended with %v", err)
	}
	w.start()
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool {
		return r.GetPhase() == failed && strings.Contains(r.GetMessage(), "another hub put it into this cluster")
	})
	w.mustData("a", "1")
}

func TestJoin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := func() error {
		service, err := agent.New(w.config(), agent.Deps{
			Log: slog.New(slog.DiscardHandler), Telemetry: telemetry.Discard(),
		})
		if err != nil {
			return err
		}
		return service.Run(t.Context())
	}
	stop := w.start()
	await.True(w.t, "the agent has joined",
		func() bool { _, err := os.Stat(filepath.Join(w.data, "token")); return err == nil })
	if err := run(); err == nil || !strings.Contains(err.Error(), "another process works in it") {
		t.Errorf("a second agent on the same folder: %v", err)
	}
	stop()
	for _, file := range []string{"token", "cluster.json", "desired.json"} {
		if info, err := os.Stat(filepath.Join(w.data, file)); err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", file, info.Mode())
		}
	}
	w.start()() // the join token is spent; the credential on disk counts

	w.data = t.TempDir()
	if err := run(); err == nil || !strings.Contains(err.Error(), "unknown, used or expired") ||
		!strings.Contains(err.Error(), "fairlead cluster join-token NAME") {
		t.Errorf("a spent join token: %v", err)
	}
	w.join = ""
	if err := run(); err == nil || !strings.Contains(err.Error(), "there is no --join-token-file") {
		t.Errorf("no join token: %v", err)
	}
}

// A removal that is under way ends where it is when the service is wanted again.
func TestRemovalEndsWhenTheServiceIsWantedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, space := w.service("moved"), w.namespace+"-moved"
	files := func(value string) map[string]string {
		return map[string]string{
			"a.yaml": configMap("a", value),
			"b.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + space + "}\n",
		}
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files("1")), healthy)
	before, err := w.get("v1", "Namespace", "", space)
	if err != nil {
		t.Fatal(err)
	}
	came, gone := make(chan struct{}), make(chan struct{})
	var first sync.Once
	w.api.set(func(r *http.Request) int {
		if r.Method != http.MethodDelete || !strings.HasSuffix(r.URL.Path, "/configmaps/a") {
			return 0
		}
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client is gone
		first.Do(func() {
			close(came)
			<-r.Context().Done()
			close(gone)
		})
		return http.StatusServiceUnavailable
	})
	w.hub.remove(name)
	waitFor(t, came, "a removal")
	digest := w.hub.push(t, name, w.namespace, files("2"))
	select {
	case <-gone:
	case <-time.After(30 * time.Second): // less than the bound of one request
		t.Fatal("the removal goes on")
	}
	w.hub.awaitPhase(t, name, digest, healthy)
	after, err := w.get("v1", "Namespace", "", space)
	if err != nil || after.GetUID() != before.GetUID() || after.GetDeletionTimestamp() != nil {
		t.Errorf("the removal went on: %v", err)
	}
	w.mustData("a", "2")
}
