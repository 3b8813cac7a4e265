package nudge_test

import (
	"testing"

	"fairlead.dev/services/distributor/internal/nudge"
)

func TestNudgesOfOneClusterAreOneUntilTaken(t *testing.T) {
	t.Parallel()
	h := nudge.New()
	a, again, other := h.Watch("a"), h.Watch("a"), h.Watch("b")
	edge := map[string]struct{}{"a": {}, "nobody": {}}
	if told := h.Nudge(edge); told != 2 {
		t.Errorf("told %d", told)
	}
	for range 100 {
		if h.Nudge(edge) != 0 {
			t.Fatal("told who has not taken the last one")
		}
	}
	<-a.C()
	<-again.C()
	select {
	case <-a.C():
		t.Error("a second nudge")
	case <-other.C():
		t.Error("another cluster's nudge")
	default:
	}
	if h.Nudge(edge) != 2 {
		t.Error("not told again")
	}
	a.Close()
	a.Close()
	again.Close()
	if h.Nudge(edge) != 0 || h.Watchers() != 1 {
		t.Errorf("%d watchers", h.Watchers())
	}
}
