package process

import (
	"runtime"
	"testing"
	"time"
)

func TestCollectorFollowsTheWork(t *testing.T) {
	t.Parallel()
	const large, middle, small = 160 << 20, 64 << 20, 8 << 20
	c := newCollector(nil)
	returned := 0
	for range 20 {
		if c.next(0, large) {
			returned++
		}
	}
	if c.percent != leastPercent || returned != 1 {
		t.Errorf("calm: %d %%, memory given back %d times", c.percent, returned)
	}
	for range 20 {
		if c.next(busyCycles, large) {
			t.Error("memory is given back in a storm")
		}
	}
	if c.percent != mostPercent {
		t.Errorf("busy with a large heap: %d %%", c.percent)
	}
	for range 20 {
		c.next(busyCycles, middle)
	}
	if c.percent != mostPercent {
		t.Errorf("busy: %d %%", c.percent)
	}
	for range 20 {
		c.next(busyCycles, small)
	}
	if c.percent != 600 {
		t.Errorf("busy with a small heap: %d %%", c.percent)
	}
	if c.next(1, middle); c.percent != mostPercent {
		t.Errorf("a heap that has grown keeps %d %%", c.percent)
	}
	c.next(busyCycles, small)
	if c.keepWithin(middle); c.percent != mostPercent {
		t.Errorf("a heap that grows between two looks keeps %d %%", c.percent)
	}
	if c.next(1, 0); c.percent != mostPercent {
		t.Errorf("now and then: %d %%", c.percent)
	}
}

type frugal struct{ Service }

func (frugal) Frugal() {}

func TestFrugalCollectorKeepsTheHeapSmall(t *testing.T) {
	t.Parallel()
	const middle, small = 64 << 20, 8 << 20
	c := newCollector(frugal{})
	for range 20 {
		c.next(busyCycles, middle)
	}
	if c.percent != frugalPercent {
		t.Errorf("busy: %d %%", c.percent)
	}
	for range 20 {
		c.next(busyCycles, small)
	}
	if c.percent != 150 {
		t.Errorf("busy with a small heap: %d %%", c.percent)
	}
}

type ample struct{ Service }

func (ample) Ample() {}

func TestAmpleCollectorCollectsALargeHeapSeldomInAStorm(t *testing.T) {
	t.Parallel()
	const huge = 512 << 20
	c := newCollector(ample{})
	for range 20 {
		c.next(busyCycles, huge)
	}
	if c.percent != ampleMost {
		t.Errorf("busy with a huge heap: %d %%", c.percent)
	}
	for range 20 {
		c.next(0, huge)
	}
	if c.percent != ampleLeast {
		t.Errorf("calm: %d %%", c.percent)
	}
}

func TestEachCycleIsTold(t *testing.T) {
	t.Parallel()
	cycled := make(chan struct{}, 1)
	defer onCycles(cycled)()
	for i := range 3 {
		runtime.GC()
		select {
		case <-cycled:
		case <-time.After(time.Minute):
			t.Fatalf("cycle %d is not told", i)
		}
	}
}
