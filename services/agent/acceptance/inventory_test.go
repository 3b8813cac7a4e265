package acceptance

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/object"
)

func TestLargeInventoryIsChunkedAndCleanedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.service("large")
	store := inventory.New(w.cluster.ConfigMaps(inventory.Namespace), w.cluster)
	record := inventory.Record{Service: name}
	for i := range 10_000 {
		record.Entries = append(record.Entries, inventory.Entry{
			Ref: object.Ref{
				Key:     object.Key{Kind: "ConfigMap", Namespace: w.namespace, Name: fmt.Sprintf("%0200d", i)},
				Version: "v1",
			},
			UID: "9f772edb-cd58-4186-9337-23220323445b", Sum: 1,
		})
	}
	for range 2 {
		if err := store.Save(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.record(name); len(got.Entries) != 10_000 {
		t.Errorf("%d entries came back", len(got.Entries))
	}
	maps := func() int {
		list, err := w.cluster.ConfigMaps(inventory.Namespace).List(t.Context(), metav1.ListOptions{
			LabelSelector: inventory.Label + "=" + name,
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if got := maps(); got != 33 {
		t.Errorf("%d ConfigMaps, want a head and 32 shards", got)
	}
	record.Entries[0].Sum++
	if err := store.Save(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if got := maps(); got != 33 {
		t.Errorf("%d ConfigMaps after a change, want 33: old shards are to go", got)
	}
	record.Entries = record.Entries[:1]
	if err := store.Save(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if got := maps(); got != 1 {
		t.Errorf("%d ConfigMaps after it shrank", got)
	}
	if err := store.Delete(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if got := maps(); got != 0 {
		t.Errorf("%d ConfigMaps after it was deleted", got)
	}
}

// Two agents on one cluster: the one that lost the race reads the inventory anew instead of overwriting it.
func TestInventoryOfAnotherWriterIsNotOverwritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.service("raced")
	entry := func(name string) inventory.Entry {
		return inventory.Entry{
			Ref: object.Ref{Key: object.Key{Kind: "ConfigMap", Namespace: w.namespace, Name: name}, Version: "v1"},
		}
	}
	one := inventory.New(w.cluster.ConfigMaps(inventory.Namespace), w.cluster)
	two := inventory.New(w.cluster.ConfigMaps(inventory.Namespace), w.cluster)
	if err := one.Save(t.Context(), inventory.Record{
		Service: name, Entries: []inventory.Entry{entry("a")},
	}); err != nil {
		t.Fatal(err)
	}
	if err := two.Save(t.Context(), inventory.Record{
		Service: name, Entries: []inventory.Entry{entry("b")},
	}); err == nil {
		t.Error("the second writer overwrote the first")
	}
	record, err := two.Get(t.Context(), name)
	if err != nil || len(record.Entries) != 1 || record.Entries[0].Name != "a" {
		t.Errorf("got %+v %v", record, err)
	}
	record.Entries = append(record.Entries, entry("b"))
	if err := two.Save(t.Context(), record); err != nil {
		t.Error(err)
	}
}

// A record that another agent has noted since is not deleted unread. A note of people's is no reason to stay.
func TestInventoryOfAnotherWriterIsNotDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.service("raced")
	entry := inventory.Entry{
		Ref: object.Ref{Key: object.Key{Kind: "ConfigMap", Namespace: w.namespace, Name: "a"}, Version: "v1"},
	}
	one, two := inventory.New(w.cluster.ConfigMaps(inventory.Namespace),
		w.cluster), inventory.New(w.cluster.ConfigMaps(inventory.Namespace), w.cluster)
	if err := one.Save(t.Context(), inventory.Record{Service: name}); err != nil {
		t.Fatal(err)
	}
	if err := two.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := two.Save(t.Context(), inventory.Record{Service: name, Entries: []inventory.Entry{entry}}); err != nil {
		t.Fatal(err)
	}
	if err := one.Delete(t.Context(), name); err == nil {
		t.Error("what another had written was deleted")
	}
	if record, err := one.Get(t.Context(), name); err != nil || len(record.Entries) != 1 {
		t.Errorf("it was not read anew: %+v %v", record, err)
	}
	if out, err := kube.Cluster(t).Kubectl(t.Context(), "", "annotate", "configmap", "-n", inventory.Namespace,
		"inventory."+name, "fairlead.dev/hold=ada"); err != nil {
		t.Fatal(out, err)
	}
	if err := one.Delete(t.Context(), name); err != nil {
		t.Error(err)
	}
	w.mustBeGone("v1", "ConfigMap", inventory.Namespace, "inventory."+name)
}

func TestDamagedInventoryStopsItsServiceOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken, fine := w.service("broken"), w.service("fine")
	stop := w.start()
	w.hub.awaitPhase(t, broken,
		w.hub.push(t, broken, w.namespace, map[string]string{
			"a.yaml": configMap("a", "1"), "b.yaml": configMap("b", "1"),
		}), healthy)
	stop()
	if _, err := kube.Cluster(t).Kubectl(t.Context(), "", "patch", "configmap", "-n", inventory.Namespace,
		"inventory."+broken, `-p={"data":{"objects":""}}`); err != nil {
		t.Fatal(err)
	}
	w.start()
	digest := w.hub.push(t, broken, w.namespace, map[string]string{"a.yaml": configMap("a", "2")})
	w.hub.awaitPhase(t, broken, digest, failed)
	w.hub.awaitPhase(t, fine, w.hub.push(t, fine, w.namespace, map[string]string{"f.yaml": configMap("f", "1")}),
		healthy)
	w.mustData("a", "1")
	w.mustData("b", "1")
	// As the message says: without it the service adopts its objects again, and nothing is pruned by guess.
	if err := w.cluster.ConfigMaps(inventory.Namespace).Delete(t.Context(), "inventory."+broken,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.hub.awaitPhase(t, broken, digest, healthy)
	w.mustData("a", "2")
	w.mustData("b", "1")
}
