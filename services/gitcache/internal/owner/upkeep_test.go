package owner

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func nap(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // fake time

func TestRequestsAreCountedForAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h hourly
		for range 90 {
			h.add(time.Now(), 2)
			nap(time.Minute)
		}
		if got := h.sum(time.Now()); got != 118 {
			t.Errorf("%d requests, want those of the last 59 whole minutes", got)
		}
		nap(30 * time.Minute)
		if got := h.sum(time.Now()); got != 58 {
			t.Errorf("%d requests after half an hour without any", got)
		}
		h.add(time.Now().Add(-10*time.Minute), 1) // a clock that was set back
		if got := h.sum(time.Now()); got != 59 {
			t.Errorf("%d requests, one by a clock that goes back", got)
		}
		nap(24 * time.Hour)
		if got := h.sum(time.Now()); got != 0 {
			t.Errorf("%d requests after a day without any", got)
		}
	})
}

func TestWhatDoesNotWorkIsTriedEverMoreSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, bad := holds{}, errors.New("bad")
		for n := range 30 {
			h.add("x", bad, time.Hour)
			bound := min(firstBackoff<<n, time.Hour)
			if n > 20 {
				bound = time.Hour
			}
			if err := h.check("x"); !errors.Is(err, bad) {
				t.Fatalf("it is tried at once: %v", err)
			}
			nap(bound/2 - 1)
			if h.check("x") == nil {
				t.Fatalf("the %dth pause is shorter than %s", n+1, bound/2)
			}
			nap(bound + 1)
			if err := h.check("x"); err != nil {
				t.Fatalf("the %dth pause is longer than %s", n+1, bound*3/2)
			}
		}
		h.done("x")
		h.add("x", bad, time.Hour)
		nap(firstBackoff * 3 / 2)
		if err := h.check("x"); err != nil {
			t.Error("what worked once is held as long as before")
		}
		for i := range 3 * maxHolds {
			h.add(string(rune(i)), bad, time.Hour)
		}
		if len(h) > maxHolds {
			t.Errorf("%d are remembered", len(h))
		}
	})
}
