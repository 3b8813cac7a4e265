package catalog

import (
	"slices"
	"testing"

	"fairlead.dev/services/console/internal/store"
)

// Nobody learns the names of services that they may not see, and a service that is computed twice is told once.
func TestTouchedServicesOfOthersAreCountedOnly(t *testing.T) {
	t.Parallel()
	of := func(name, problem string, entries ...string) store.Reconfigured {
		return store.Reconfigured{Service: store.Resource{Name: name}, Entries: entries, Problem: problem}
	}
	list := []store.Reconfigured{
		of("web", "no value", "b"), of("hidden", "", "a"), of("web", "", "a", "b"),
		of("api", ""),
	}
	got, total := touchedBy(list, func(r store.Resource) bool { return r.Name != "hidden" })
	if len(got) != 2 || total != 3 || got[0].Service.Name != "api" || got[1].Service.Name != "web" ||
		got[1].Problem != "" || !slices.Equal(got[1].Entries, []string{"a", "b"}) {
		t.Errorf("got %+v of %d", got, total)
	}
	if all, total := touchedBy(list, nil); len(all) != 3 || total != 3 {
		t.Errorf("an administrator sees %+v of %d", all, total)
	}
}
