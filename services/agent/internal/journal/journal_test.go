package journal_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"fairlead.dev/services/agent/internal/journal"
	"fairlead.dev/services/agent/internal/object"
)

const service = "shop"

func open(t *testing.T, dir string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// names are the objects that a new process finds, after so many repairs that the inventory knows of.
func names(t *testing.T, dir string, after uint64) []string {
	t.Helper()
	j := open(t, dir)
	repairs, err := j.Recall(service, after)
	if err != nil {
		t.Fatal(err)
	}
	if j.Count(service) != len(repairs) {
		t.Errorf("%d repairs are counted, %d are there", j.Count(service), len(repairs))
	}
	var names []string
	for _, repair := range repairs {
		names = append(names, repair.Name)
	}
	return names
}

func add(t *testing.T, j *journal.Journal, name string, after uint64) {
	t.Helper()
	if err := j.Add(service, journal.Repair{
		Key: object.Key{Kind: "ConfigMap", Namespace: "x", Name: name}, UID: "u", Sum: 1, Owned: 2, After: after,
	}); err != nil {
		t.Fatal(err)
	}
}

func TestRepairsSurviveARestartUntilTheInventoryKnowsOfThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, dir)
	for _, name := range []string{"a", "b", "c"} {
		add(t, j, name, 7)
	}
	if got := names(t, dir, 7); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %v", got)
	}
	if got := names(t, dir, 8); len(got) != 0 {
		t.Errorf("another agent has written the inventory, and %v is believed", got)
	}
	if err := j.Drop(service, 2, 9); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir, 9); j.Count(service) != 1 || !slices.Equal(got, []string{"c"}) {
		t.Errorf("after the inventory was written: %d, %v", j.Count(service), got)
	}
	if err := j.Drop(service, 1, 10); err != nil {
		t.Fatal(err)
	}
	if services, err := j.Services(); err != nil || len(services) != 0 || j.Count(service) != 0 {
		t.Errorf("got %v, %v", services, err)
	}
}

func TestLineThatWasCutIsLeftOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	add(t, open(t, dir), "a", 0)
	file, err := os.OpenFile(filepath.Join(dir, service+".jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"Kind":"ConfigMap","Na`); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	add(t, open(t, dir), "lost", 0) // with what was cut
	add(t, open(t, dir), "b", 0)
	if got := names(t, dir, 0); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %v", got)
	}
}
