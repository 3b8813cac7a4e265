package process

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"fairlead.dev/platform/container"
)

// The collector of garbage is given leave to let the heap grow by a percentage, which follows what is going on: a
// process in a storm, or with next to nothing on its heap, does not spend its time collecting. A calm process collects
// while it has nothing else to do, and keeps little more than it needs: the work that comes all of a sudden then finds
// the room of the percentage, instead of a cycle that has it collect before it gets any memory.
const (
	collectorLook = 10 * time.Second
	// busyCycles in one look are too many, and so are cycles that take busyShare of what the process does and busyCores
	// besides: a large heap is looked at for a second and more each time.
	busyCycles = 4
	busyShare  = 0.1
	busyCores  = 0.05
	// calmCores is what a calm process takes at most. A heap that may grow by much has no cycle in a look of a storm
	// either.
	calmCores = 0.2
	// leastPercent may a heap grow by in a calm, and at the start, which makes garbage once, and mostPercent in a
	// storm. Each collection looks at all of a heap, however little of it has changed, so that what the collector costs
	// in a storm is the garbage divided by this percentage.
	leastPercent, mostPercent = 50, 100
	// sparePercent of its heap, and spareBytes in any case, may be of no use to a calm process.
	sparePercent, spareBytes = 10, 4 << 20
	// roomBytes may a heap grow by, however small it is: collecting takes much the same time each time.
	roomBytes = 48 << 20
	// frugalLeast, frugalMost and frugalBytes are instead of leastPercent, mostPercent and roomBytes for a service that
	// is Frugal.
	frugalLeast, frugalMost, frugalBytes = 10, 40, 12 << 20
	// ampleMost and ampleSpare are instead of mostPercent and sparePercent for a service that is Ample.
	ampleMost, ampleSpare = 200, 30
	// restingMost and restingBytes are instead of leastPercent, mostPercent and roomBytes for a service that is Resting.
	restingMost, restingBytes = 30, 32 << 20
	// memoryShare is the percentage of a container's memory from which on the collector runs more often, whatever the
	// heap may grow by.
	memoryShare = 85
)

// Frugal is a service whose memory counts more than the time that collecting takes: it runs in many places, beside the
// work of others.
type Frugal interface{ Frugal() }

// Ample is a service whose time counts more than its memory: all others wait for it. The memory of its container limits
// it all the same.
type Ample interface{ Ample() }

// Resting is a service whose memory is mostly that of connections at rest. They come in a storm, the garbage of it
// lies between them, and most of what the heap grew by then stays in memory.
type Resting interface{ Resting() }

// collector finds the percentage.
type collector struct {
	percent, least, most int
	spare                uint64 // percent
	room                 uint64 // bytes
}

func newCollector(service Service) collector {
	c := collector{percent: leastPercent, least: leastPercent, most: mostPercent, spare: sparePercent, room: roomBytes}
	if _, frugal := service.(Frugal); frugal {
		c.least, c.most, c.room = frugalLeast, frugalMost, frugalBytes
	}
	if _, ample := service.(Ample); ample {
		c.most, c.spare = ampleMost, ampleSpare
	}
	if _, resting := service.(Resting); resting {
		c.least, c.most, c.room = restingMost, restingMost, restingBytes
	}
	return c
}

// Collect has the collector run as it does in a service, until ctx ends: for a program that measures a service's
// handlers in a process of its own.
func Collect(ctx context.Context) { newCollector(nil).run(ctx) }

// CollectFrugally is Collect as in a service that is Frugal.
func CollectFrugally(ctx context.Context) { newCollector(frugally{}).run(ctx) }

type frugally struct{ Service }

func (frugally) Frugal() {}

// load is what the collector did in some time.
type load struct {
	cycles              uint64
	collecting, working float64 // seconds of CPU time, known up to the last cycle
	used, took          time.Duration
}

func (l load) calm() bool { return l.cycles == 0 && l.used.Seconds() < calmCores*l.took.Seconds() }

func (l load) busy() bool {
	return l.cycles >= busyCycles || l.collecting > busyShare*(l.collecting+l.working) && l.collecting > busyCores*l.took.Seconds()
}

// heap is what a process has in memory, in bytes.
type heap struct {
	base  uint64 // what the percentage is of: what was alive at the last cycle, and the stacks
	spare uint64 // garbage, and what is free and not given back
}

// next takes what the collector did since the last look, and what is there. next says whether the process should
// collect now, and give back what it does not need.
func (c *collector) next(did load, now heap) (giveBack bool) {
	switch {
	case did.busy():
		c.percent *= 2
	case did.calm():
		c.percent /= 2
	}
	c.percent = max(c.percent, c.least)
	c.keepWithin(now.base)
	return did.calm() && now.spare > max(now.base/100*c.spare, spareBytes)
}

// keepWithin lowers the percentage to what a heap may grow by.
func (c *collector) keepWithin(base uint64) {
	most := c.most
	if base > 0 {
		most = max(most, int(min(c.room*100/base, 1000)))
	}
	c.percent = min(c.percent, most)
}

// run sets the percentage until ctx ends: at each look, and at once when the collector was busy since the last one, or
// the heap has grown so much that it may not grow as much again. GOGC, if it is set, is left alone.
func (c collector) run(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(c.percent)
	if limit := container.MemoryLimit(os.DirFS("/")); limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 100 * memoryShare)
	}
	look := time.NewTicker(collectorLook)
	defer look.Stop()
	cycled := make(chan struct{}, 1)
	defer onCycles(cycled)()
	at := time.Now()
	for last, _ := measure(); ; {
		looked := false
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			looked = true
		case <-cycled:
		}
		before, giveBack := c.percent, false
		now, memory := measure()
		if did := now.since(last, time.Since(at)); looked || did.busy() {
			giveBack = c.next(did, memory)
			look.Reset(collectorLook)
			last, at = now, time.Now()
		} else {
			c.keepWithin(memory.base)
		}
		if c.percent != before {
			debug.SetGCPercent(c.percent)
		}
		if giveBack {
			debug.FreeOSMemory()
			last, _ = measure()
		}
	}
}

func (l load) since(before load, took time.Duration) load {
	return load{l.cycles - before.cycles, l.collecting - before.collecting, l.working - before.working, l.used - before.used, took}
}

// measure returns what the collector did since the process began, and what is in memory.
func measure() (did load, now heap) {
	samples := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/cpu/classes/gc/mark/idle:cpu-seconds"},
		{Name: "/cpu/classes/user:cpu-seconds"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	did = load{
		cycles: samples[0].Value.Uint64(), collecting: samples[3].Value.Float64() - samples[4].Value.Float64(),
		working: samples[5].Value.Float64(), used: usedCPU(),
	}
	live, objects := samples[1].Value.Uint64(), samples[6].Value.Uint64()
	return did, heap{
		base:  live + samples[2].Value.Uint64(),
		spare: max(objects, live) - live + samples[7].Value.Uint64(),
	}
}

// onCycles tells of each cycle of the collector, until it is stopped: work that begins all of a sudden does not wait
// for a look, in which it would spend half of its time collecting.
func onCycles(cycled chan<- struct{}) (stop func()) {
	var stopped atomic.Bool
	type witness struct{ _ *byte } // found dead by each cycle
	var again func(*witness)
	again = func(w *witness) {
		if stopped.Load() {
			return
		}
		runtime.SetFinalizer(w, again) // before anybody hears of it, and makes the next cycle
		select {
		case cycled <- struct{}{}:
		default:
		}
	}
	runtime.SetFinalizer(&witness{}, again)
	return func() { stopped.Store(true) }
}
