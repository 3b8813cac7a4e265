package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
)

// A namespace that leaves the folder would take along everything that was just applied in it.
func TestNamespaceThatIsStillUsedStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name, space := w.service("app"), w.namespace+"-app"
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + space + "}\n"
	inside := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: inside, namespace: %s}\n", space)
	w.hub.awaitPhase(t, name,
		w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": inside, "b.yaml": namespace}), healthy)
	before, err := w.get("v1", "ConfigMap", space, "inside")
	if err != nil {
		t.Fatal(err)
	}
	w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, map[string]string{"a.yaml": inside}), healthy)
	after, err := w.get("v1", "ConfigMap", space, "inside")
	if err != nil || after.GetUID() != before.GetUID() || after.GetDeletionTimestamp() != nil {
		t.Errorf("the namespace went with what is in it: %v", err)
	}
	kept, err := w.get("v1", "Namespace", "", space)
	if err != nil || kept.GetDeletionTimestamp() != nil || object.Owner(kept) != "" {
		t.Errorf("the namespace is not let go of: %v %v", kept, err)
	}
}

// An Event has the names of two groups, as an Ingress had: by the other name it is the same object.
func TestAnObjectOfAnotherGroupIsNotPruned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("app")
	about := "{apiVersion: v1, kind: Pod, namespace: " + w.namespace + ", name: web}"
	const more = "\nmetadata: {name: e}\nreason: Sails\naction: Sail\ntype: Normal\nreportingInstance: a\n" +
		"eventTime: \"2026-01-01T00:00:00.000000Z\"\n"
	push := func(event string) {
		files := map[string]string{"event.yaml": event + more, "a.yaml": configMap("a", "1")}
		w.hub.awaitPhase(t, name, w.hub.push(t, name, w.namespace, files), healthy)
	}
	push("apiVersion: v1\nkind: Event\nmessage: m\nreportingComponent: fairlead.dev/test\ninvolvedObject: " + about)
	first := w.found("v1", "Event", "e")
	if err := w.cluster.Delete(t.Context(), object.RefOf(first), first.GetUID()); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the event is repaired", func() bool { // of which the inventory knows a minute later
		found, err := w.get("v1", "Event", w.namespace, "e")
		return err == nil && found.GetUID() != first.GetUID()
	})
	before := w.found("v1", "Event", "e")
	push("apiVersion: events.k8s.io/v1\nkind: Event\nnote: m\nreportingController: fairlead.dev/test\nregarding: " + about)
	if after := w.found("v1", "Event", "e"); after.GetUID() != before.GetUID() {
		t.Error("it was deleted, and made again")
	}
	if record := w.record(name); len(record.Entries) != 2 {
		t.Errorf("the inventory has %v", record.Entries)
	}
}

// A delete of an agent is of this very object: another one of the same name, that came meanwhile, stays.
func TestEveryDeleteNamesTheObjectsUID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	name := w.service("app")
	deployment := func(label string) string {
		return "---\n" + strings.NewReplacer("name: web", "name: web, annotations: {fairlead.dev/recreate: allowed}",
			"a: b", "a: "+label).Replace(webDeployment)
	}
	ran := map[types.UID]bool{}
	push := func(text string) {
		t.Helper()
		digest := w.hub.push(t, name, w.namespace, map[string]string{"all.yaml": text})
		if strings.Contains(text, "hook") {
			await.True(w.t, "the hook of this revision is there", func() bool {
				found, err := w.get("batch/v1", "Job", w.namespace, "check")
				if err != nil || ran[found.GetUID()] {
					return false
				}
				ran[found.GetUID()] = true
				return true
			})
			w.end("check", "Complete")
		}
		w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetAppliedDigest() == digest })
	}
	uid := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	var mu sync.Mutex // guards deleted
	deleted := map[string]int{}
	w.api.set(func(r *http.Request) int {
		if r.Method != http.MethodDelete || strings.Contains(r.URL.Path, "/"+inventory.Namespace+"/") {
			return 0
		}
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err != nil || !strings.Contains(string(body), "preconditions") || !uid.Match(body) {
			t.Errorf("%s deletes whatever has the name: %s, %v", r.URL.Path, body, err)
		}
		mu.Lock()
		defer mu.Unlock()
		deleted[path.Base(r.URL.Path)]++
		return 0
	})
	hook := job("check", "fairlead.dev/hook: pre-sync")
	push(annotated("a", "1", "") + annotated("b", "1", "") + hook + deployment("b"))
	push(annotated("a", "1", "") + hook + deployment("c")) // pruned, run anew, made anew
	w.hub.remove(name)
	w.hub.await(t, name, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	mu.Lock()
	defer mu.Unlock()
	if want := map[string]int{"a": 1, "b": 1, "check": 2, "web": 2}; !maps.Equal(deleted, want) {
		t.Errorf("deleted %v, want %v", deleted, want)
	}
}

// crd defines a kind of its own for a test.
func crd(group string) string {
	return strings.ReplaceAll(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rafts.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Raft, plural: rafts}
  versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, "GROUP", group)
}

func raft(group, name string) string {
	return "apiVersion: " + group + "/v1\nkind: Raft\nmetadata: {name: " + name + "}\n"
}

// The definition of a kind takes along every object of it, whoever made that.
func TestDefinitionOfAKindThatIsStillUsedStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	kinds, own, group := w.service("kinds"), w.service("own"), w.namespace+".dev"
	w.hub.awaitPhase(t, kinds,
		w.hub.push(t, kinds, w.namespace, map[string]string{
			"a.yaml": crd(group), "b.yaml": raft(group, "first"), "c.yaml": configMap("c", "1"),
		}), healthy)
	w.hub.awaitPhase(t, own, w.hub.push(t, own, w.namespace, map[string]string{"a.yaml": raft(group, "second")}),
		healthy)
	if gvk := (schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Raft"}); w.cluster.HasStatus(gvk) {
		t.Error("a kind that was not asked for has a status")
	} else if _, err := w.cluster.Kind(t.Context(), gvk); err != nil || !w.cluster.HasStatus(gvk) {
		t.Errorf("the kind's status is not known: %v", err)
	}
	mustStay := func(when string, names ...string) {
		t.Helper()
		for _, name := range names {
			if found, err := w.get(group+"/v1", "Raft", w.namespace, name); err != nil ||
				found.GetDeletionTimestamp() != nil {
				t.Fatalf("%s %s is gone: %v", when, name, err)
			}
		}
	}
	// The definition leaves the folder, and an object of the same folder stays; then the service goes, and another's
	// stays.
	w.hub.awaitPhase(t, kinds,
		w.hub.push(t, kinds, w.namespace, map[string]string{
			"b.yaml": raft(group, "first"), "c.yaml": configMap("c", "2"),
		}), healthy)
	mustStay("without its definition in the folder", "first", "second")
	w.hub.awaitPhase(t, kinds, w.hub.pushSynced(t, kinds, w.namespace, map[string]string{"a.yaml": crd(group)}, lax()),
		healthy)
	w.mustBeGone(group+"/v1", "Raft", w.namespace, "first")
	w.hub.remove(kinds)
	w.hub.await(t, kinds, func(r *deliveryv1.ServiceReport) bool { return r.GetPhase() == removed })
	mustStay("without the service that brought its definition", "second")
}

// The objects of an inventory that can't be read are unknown: a namespace may hold one.
func TestNamespaceWaitsForInventoriesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	home, guest, space := w.service("home"), w.service("guest"), w.namespace+"-home"
	stop := w.start()
	w.hub.awaitPhase(t, home, w.hub.push(t, home, w.namespace, map[string]string{
		"a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + space + "}\n", "b.yaml": configMap("b", "1"),
	}), healthy)
	w.hub.awaitPhase(t, guest, w.hub.push(t, guest, space, map[string]string{"a.yaml": configMap("a", "1")}), healthy)
	stop()
	objects := func(text string) {
		t.Helper()
		patch := fmt.Sprintf(`-p={"data":{"objects":%q}}`, text)
		if _, err := kube.Cluster(t).Kubectl(t.Context(), "", "patch", "configmap", "-n", inventory.Namespace,
			"inventory."+guest, patch); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := w.cluster.ConfigMaps(inventory.Namespace).Get(t.Context(), "inventory."+guest, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	objects("")
	w.start()
	second := w.hub.push(t, home, w.namespace, map[string]string{"b.yaml": configMap("b", "2")})
	report := w.hub.awaitPhase(t, home, second, progressing)
	// Which one is told is open: other tests damage theirs in the same cluster.
	if want := `Namespace ` + space +
		` waits until the inventory of service "`; !strings.Contains(report.GetMessage(), want) {
		t.Errorf("got %s, want %s", report.GetMessage(), want)
	}
	if found, err := w.get("v1", "ConfigMap", space, "a"); err != nil || found.GetDeletionTimestamp() != nil {
		t.Errorf("the guest lost its object: %v", err)
	}
	data, _ := kept.Object["data"].(map[string]any)
	objects(fmt.Sprint(data["objects"]))
	w.hub.awaitPhase(t, home, second, healthy)
	if found, err := w.get("v1", "ConfigMap", space, "a"); err != nil || found.GetDeletionTimestamp() != nil {
		t.Errorf("the guest lost its object: %v", err)
	}
}

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
