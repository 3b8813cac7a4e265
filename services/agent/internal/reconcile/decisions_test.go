package reconcile

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/notice"
)

// A service that was renamed comes with the removal of the old name. Data of the old one waits until it is known what
// the new one has, and not for ever.
func TestARemovalWaitsForWhatIsNotDecided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, err := desired.Open(t.TempDir(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		c := &Controller{
			Deps:    Deps{Desired: store, Inventory: inventory.New(nil, nil)},
			notices: notice.New(gather),
		}
		update := func(services []desired.Service, removed ...string) {
			t.Helper()
			if err := store.Update(services, removed, 0); err != nil {
				t.Fatal(err)
			}
		}
		must := func(when, want string) {
			t.Helper()
			if got := c.Undecided("before"); got != want {
				t.Errorf("%s: waits for %q, want %q", when, got, want)
			}
		}
		before := desired.Service{Name: "before", Digest: "d1", Path: "a"}
		after := desired.Service{Name: "after", Digest: "d2", Path: "a"}
		update([]desired.Service{before})
		must("there is no other service", "")
		update([]desired.Service{after}, "before")
		must("the new name came", "after")
		<-time.After(decisionPatience - 1)
		must("a moment before it is long enough", "after")
		(&site{controller: c, name: "after"}).noteDecided(after)
		must("it is known what it has", "")
		if woken := c.notices.Take(); !slices.Equal(woken, []string{"before"}) {
			t.Errorf("the removal does not look again, but %v", woken)
		}
		after.Digest, after.Path = "d3", "b"
		update([]desired.Service{after})
		must("it has other content", "after")
		<-time.After(1)
		must("it was waited for long enough", "")
		(&site{controller: c, name: "after"}).noteDecided(desired.Service{Name: "after", Path: "other"})
		if woken := c.notices.Take(); len(woken) > 0 {
			t.Errorf("nothing waits any more, and %v look again", woken)
		}
		c.decisions.forget("before")
		must("something else was wanted of the old name meanwhile", "after")
		update(nil, "after")
		must("the new name is removed, too", "")
		// Another agent led while the old name waited; the hub first tells only that it is removed.
		c.decisions.forget("before")
		if err := store.Doubt([]string{"after", "before"}, 0); err != nil {
			t.Fatal(err)
		}
		update(nil, "before")
		must("the hub has not told of the new name", "after")
		update([]desired.Service{after})
		must("it has", "after")
		(&site{controller: c, name: "after"}).noteDecided(after)
		must("it is known what it has now", "")
		if err := store.Doubt([]string{"after", "before"}, 0); err != nil {
			t.Fatal(err)
		}
		update(nil, "before")
		<-time.After(decisionPatience)
		must("the hub was waited for long enough", "")
	})
}
