package process

import (
	"runtime"
	"testing"
	"time"
)

// storm is what the collector does while there is too much of it, and calm while there is next to nothing to do.
var storm, calm = load{cycles: busyCycles}, load{used: 50 * time.Millisecond, took: collectorLook}

func TestCollectorFollowsTheWork(t *testing.T) {
	t.Parallel()
	const large, middle, small = 160 << 20, 64 << 20, 8 << 20
	c := newCollector(nil)
	for range 20 {
		c.next(storm, heap{base: large})
	}
	if c.percent != mostPercent {
		t.Errorf("busy with a large heap: %d %%", c.percent)
	}
	for range 20 {
		c.next(storm, heap{base: middle})
	}
	if c.percent != mostPercent {
		t.Errorf("busy: %d %%", c.percent)
	}
	for range 20 {
		c.next(storm, heap{base: small})
	}
	if c.percent != 600 {
		t.Errorf("busy with a small heap: %d %%", c.percent)
	}
	if c.next(load{used: 4 * time.Second, took: collectorLook}, heap{base: small}); c.percent != 600 {
		t.Errorf("busy without a cycle: %d %%", c.percent)
	}
	if c.next(load{cycles: 1}, heap{base: middle}); c.percent != mostPercent {
		t.Errorf("a heap that has grown keeps %d %%", c.percent)
	}
	c.next(storm, heap{base: small})
	if c.keepWithin(middle); c.percent != mostPercent {
		t.Errorf("a heap that grows between two looks keeps %d %%", c.percent)
	}
	if c.next(load{cycles: 1}, heap{}); c.percent != mostPercent {
		t.Errorf("now and then: %d %%", c.percent)
	}
	for range 20 {
		c.next(calm, heap{base: large})
	}
	if c.percent != leastPercent {
		t.Errorf("calm: %d %%", c.percent)
	}
}

func TestCollectorCollectsInACalm(t *testing.T) {
	t.Parallel()
	const large, small = 160 << 20, 8 << 20
	work := load{used: 4 * time.Second, took: collectorLook}
	for name, tc := range map[string]struct {
		service Service
		did     load
		now     heap
		want    bool
	}{
		"much is spare":               {nil, calm, heap{base: large, spare: large / 8}, true},
		"little is spare":             {nil, calm, heap{base: large, spare: large / 16}, false},
		"little of a small heap":      {nil, calm, heap{base: small, spare: small / 4}, false},
		"much of a small heap":        {nil, calm, heap{base: small, spare: small}, true},
		"a storm":                     {nil, storm, heap{base: large, spare: large}, false},
		"work without a cycle":        {nil, work, heap{base: large, spare: large}, false},
		"as much of an ample process": {ample{}, calm, heap{base: large, spare: large / 8}, false},
		"more of an ample process":    {ample{}, calm, heap{base: large, spare: large / 2}, true},
		"as much of a frugal process": {frugal{}, calm, heap{base: large, spare: large / 8}, true},
	} {
		c := newCollector(tc.service)
		if got := c.next(tc.did, tc.now); got != tc.want {
			t.Errorf("%s: collects %t", name, got)
		}
	}
}

func TestCollectorIsBusyByItsTime(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		did  load
		want bool
	}{
		"many short cycles":          {load{cycles: busyCycles, collecting: 0.01, working: 5, took: collectorLook}, true},
		"two long cycles":            {load{cycles: 2, collecting: 2, working: 5, took: collectorLook}, true},
		"long cycles of a calm hub":  {load{cycles: 1, collecting: 0.4, working: 0.3, took: collectorLook}, false},
		"a busy process, few cycles": {load{cycles: 2, collecting: 0.6, working: 15, took: collectorLook}, false},
		"nothing":                    {load{took: collectorLook}, false},
	} {
		if tc.did.busy() != tc.want {
			t.Errorf("%s: busy %t", name, !tc.want)
		}
	}
}

type frugal struct{ Service }

func (frugal) Frugal() {}

func TestFrugalCollectorKeepsTheHeapSmall(t *testing.T) {
	t.Parallel()
	const middle, small = 64 << 20, 8 << 20
	c := newCollector(frugal{})
	for range 20 {
		c.next(storm, heap{base: middle})
	}
	if c.percent != frugalMost {
		t.Errorf("busy: %d %%", c.percent)
	}
	for range 20 {
		c.next(storm, heap{base: small})
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
		c.next(storm, heap{base: huge})
	}
	if c.percent != ampleMost {
		t.Errorf("busy with a huge heap: %d %%", c.percent)
	}
	for range 20 {
		c.next(calm, heap{base: huge})
	}
	if c.percent != leastPercent {
		t.Errorf("calm: %d %%", c.percent)
	}
}

type resting struct{ Service }

func (resting) Resting() {}

func TestRestingCollectorLetsAHeapGrowByLessInAStorm(t *testing.T) {
	t.Parallel()
	const large, small = 128 << 20, 8 << 20
	c := newCollector(resting{})
	for range 20 {
		c.next(storm, heap{base: large})
	}
	if c.percent != restingMost {
		t.Errorf("busy: %d %%", c.percent)
	}
	for range 20 {
		c.next(storm, heap{base: small})
	}
	if c.percent != 400 {
		t.Errorf("busy with a small heap: %d %%", c.percent)
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
