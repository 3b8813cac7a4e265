package service

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// The collector of garbage is given leave to let the heap grow by a percentage, which follows what is going on: a process
// with little to do keeps little more than it needs, and one in a storm, or with next to nothing on its heap, does not
// spend its time collecting.
const (
	collectorLook = 10 * time.Second
	// busyCycles in one look are too many.
	busyCycles = 4
	// firstPercent is for the start, which makes garbage once.
	firstPercent, leastPercent, mostPercent = 50, 15, 100
	// roomBytes may a heap grow by, however small it is: collecting takes much the same time each time.
	roomBytes = 48 << 20
	// frugalPercent and frugalBytes are instead of mostPercent and roomBytes for who is Frugal.
	frugalPercent, frugalBytes = 40, 12 << 20
	// stormBytes is all that a large heap may grow by in a storm: what lives on among so much garbage keeps its pages for long.
	stormBytes = 128 << 20
)

// Frugal is a service whose memory counts more than the time that collecting takes: it runs in many places, beside the work of others.
type Frugal interface{ Frugal() }

// collector finds the percentage.
type collector struct {
	percent, most int
	room          uint64 // bytes
}

func newCollector(service Service) collector {
	if _, frugal := service.(Frugal); frugal {
		return collector{percent: firstPercent, most: frugalPercent, room: frugalBytes}
	}
	return collector{percent: firstPercent, most: mostPercent, room: roomBytes}
}

// next takes how often the collector ran since the last look, and how much was alive then. It says whether what the
// process does not need any more should be given back: once, when it has become calm.
func (c *collector) next(cycles, live uint64) (giveBack bool) {
	before := c.percent
	switch {
	case cycles >= busyCycles:
		c.percent *= 2
	case cycles == 0:
		c.percent /= 2
	}
	most := c.most
	if live > 0 {
		most = max(min(most, int(stormBytes*100/live)), int(min(c.room*100/live, 1000)), leastPercent)
	}
	c.percent = min(max(c.percent, leastPercent), most)
	return c.percent == leastPercent && before > leastPercent
}

// run sets the percentage until ctx ends: at each look, and at once when there were busyCycles since the last one. GOGC, if it is set,
// is left alone.
func (c collector) run(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(c.percent)
	look := time.NewTicker(collectorLook)
	defer look.Stop()
	cycled := make(chan struct{}, 1)
	defer onCycles(cycled)()
	samples := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	for seen := samples[0].Value.Uint64(); ; {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			metrics.Read(samples)
		case <-cycled:
			if metrics.Read(samples); samples[0].Value.Uint64()-seen < busyCycles {
				continue
			}
			look.Reset(collectorLook)
		}
		before := c.percent
		giveBack := c.next(samples[0].Value.Uint64()-seen, samples[1].Value.Uint64())
		if c.percent != before {
			debug.SetGCPercent(c.percent)
		}
		if giveBack {
			debug.FreeOSMemory()
		}
		metrics.Read(samples)
		seen = samples[0].Value.Uint64()
	}
}

// onCycles tells of each cycle of the collector, until it is stopped: work that begins all of a sudden does not wait for a look, in
// which it would spend half of its time collecting.
func onCycles(cycled chan<- struct{}) (stop func()) {
	var stopped atomic.Bool
	type witness struct{ _ *byte } // found dead by each cycle
	var again func(*witness)
	again = func(w *witness) {
		if stopped.Load() {
			return
		}
		select {
		case cycled <- struct{}{}:
		default:
		}
		runtime.SetFinalizer(w, again)
	}
	runtime.SetFinalizer(&witness{}, again)
	return func() { stopped.Store(true) }
}
