package reconcile

import "testing"

// A configuration takes slots away and gives them back, and never gives more than there are without one.
func TestConcurrencyIsOnlyNarrowed(t *testing.T) {
	t.Parallel()
	turns := newTurns()
	free := func() (n int) {
		for turns.slots.TryAcquire(1) {
			n++
		}
		turns.slots.Release(int64(n))
		return n
	}
	for _, step := range []struct{ most, want int }{{0, workers}, {1, 1}, {workers + 5, workers}, {2, 2}, {0, workers}} {
		if turns.narrowSlots(step.most); free() != step.want {
			t.Errorf("narrowed to %d there are %d slots, want %d", step.most, free(), step.want)
		}
	}
	give, err := turns.takeSlot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if turns.narrowSlots(1); free() != 0 { // what runs is the one that may
		t.Errorf("beside what runs there are %d slots", free())
	}
	if give(); free() != 1 {
		t.Errorf("after it there are %d slots", free())
	}
}
