package acceptance

import (
	"slices"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/platform/await"
	"fairlead.dev/platform/consoletest"
)

// After the console's database was put back, services that it does not know stay until somebody confirms that they are
// to go; one that is made again is delivered meanwhile.
func TestWhatARestoredCatalogLacksStaysUntilItIsConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	w.console.Put(service("new", "edge-1", "apps/hello"), service("newer", "edge-1", "apps/hello"))
	e := w.start()
	a := e.agent("edge-1")
	a.awaitCommit("new", commit("1"))
	a.awaitCommit("newer", commit("1"))

	w.console.SayOfRemovals(&consolev1.Removals{Held: true})
	await.True(w.t, "the distributor knows", func() bool {
		w.console.Put(consoletest.Deleted(consolev1.Kind_KIND_SERVICE, "new"), consoletest.Deleted(consolev1.Kind_KIND_SERVICE, "newer"))
		a.sync()
		return len(w.console.heldAt("edge-1")) == 2
	})
	if len(a.have) != 3 {
		t.Fatalf("the agent has %v", a.have)
	}

	// Another distributor, without a past, holds them as well.
	w.dir = t.TempDir()
	other := w.start()
	second := other.agent("edge-1")
	second.have = map[string]string{"new": a.have["new"], "newer": a.have["newer"]}
	second.awaitCommit("hello", commit("1"))
	if second.have["new"] == "" || second.have["newer"] == "" {
		t.Fatalf("the agent has %v", second.have)
	}

	w.git.commit(t, commit("2"), "apps/hello", "two")
	w.console.Put(shop("HEAD", commit("2")), service("new", "edge-1", "apps/hello"))
	a.awaitCommit("new", commit("2"))
	await.True(w.t, "the rest is held", func() bool {
		a.sync()
		return slices.Equal(w.console.heldAt("edge-1"), []string{"newer"})
	})
	if a.have["newer"] == "" {
		t.Fatal("it was removed before it was confirmed")
	}

	// A console that does not know yet does not end it; a confirmation does.
	w.console.SayOfRemovals(&consolev1.Removals{})
	w.console.Put(service("late", "edge-1", "apps/hello"))
	a.awaitCommit("late", commit("2"))
	if a.have["newer"] == "" {
		t.Fatal("it was removed before it was confirmed")
	}
	w.console.SayOfRemovals(&consolev1.Removals{Confirmation: "c1"})
	await.True(w.t, "it goes", func() bool { a.sync(); return a.have["newer"] == "" })
	await.True(w.t, "nothing is held", func() bool { return len(w.console.heldAt("edge-1")) == 0 })
	if len(a.have) != 3 {
		t.Errorf("the agent has %v", a.have)
	}
}

// A distributor that has just come knows by the console that a person is asked about a cluster.
func TestWhatAPersonIsAskedAboutStaysAtEveryDistributor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	w.console.SayOfRemovals(&consolev1.Removals{Clusters: []string{"edge-1"}})
	a := w.start().agent("edge-1")
	a.awaitCommit("hello", commit("1"))
	a.have["new"] = ""
	await.True(w.t, "the console is told", func() bool { a.sync(); return slices.Equal(w.console.heldAt("edge-1"), []string{"new"}) })
	if _, has := a.have["new"]; !has {
		t.Fatal("it was removed before it was confirmed")
	}
	w.console.SayOfRemovals(&consolev1.Removals{Confirmation: "c1"})
	await.True(w.t, "it goes", func() bool { a.sync(); _, has := a.have["new"]; return !has })
}
