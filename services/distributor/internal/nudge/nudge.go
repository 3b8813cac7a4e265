// Package nudge tells the watchers of a cluster that there is something to do or to report, and all watchers from time
// to time that there is nothing. The package never waits for a watcher: nudges that were not taken are one nudge, or one
// beat. In a busy process the nudges of a watcher keep a distance.
package nudge

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/platform/telemetry"
)

const (
	// Beat is the time between two beats of a watcher: within the minute after which proxies end what is silent. Each
	// beat of ten thousand costs a tenth of a core for a second and more.
	Beat = 45 * time.Second
	// tick is the time between two groups of watchers: all of a group have their beat at once, so that ten
	// thousand streams wake the process up a few times per second, and each time only for some milliseconds.
	tick   = 250 * time.Millisecond
	groups = int(Beat / tick)
	// followed is in about how many clusters the trace of a commit goes on, of those that watch here: what is worth
	// seeing is seen in a hundred, and nothing shows the spans of ten thousand.
	followed = 100
	// longestPause is between two nudges of a watcher while there is all the pressure that there can be, and as much
	// less as there is less: when everything is new, as for a fleet that comes all at once, each agent asks for much at
	// once instead of for each folder as it is made.
	longestPause = 30 * time.Second
	// mostAsking is how many clusters may have been nudged, or have begun, and not have asked yet. The others wait here,
	// the longest wait first, at the price of an entry in a list: as calls in a line they would be turned away, and
	// come again.
	mostAsking = 512
	// asksWithin is how long a nudged cluster counts as one that has not asked yet.
	asksWithin = 10 * time.Second
)

// Event is what there is to tell, as bits.
type Event uint32

// The events.
const (
	Nudge  Event = 1 << iota // There is something to do.
	Alive                    // Nothing; the stream is to show that it lives.
	Report                   // There is time for reports that were put off.
)

// Nudger tells watchers that there is news. The zero value is not usable: New. Run gives the beats. Safe for concurrent
// use.
type Nudger struct {
	pressure func() float64

	mu       sync.Mutex
	late     list.List                        // of *Watcher: these have a nudge to come; guarded by mu
	asking   map[string]time.Time             // when these were nudged or began, and have not asked since; guarded by mu
	watchers map[string]map[*Watcher]struct{} // by cluster; guarded by mu
	beats    [groups]map[*Watcher]struct{}    // by when they have their beat; guarded by mu
	next     int                              // group of the next watcher; guarded by mu
	count    int                              // guarded by mu
}

// New returns a Nudger without watchers. pressure is how busy the process is, from 0 to 1.
func New(pressure func() float64) *Nudger {
	h := &Nudger{pressure: pressure, watchers: map[string]map[*Watcher]struct{}{}, asking: map[string]time.Time{}}
	for i := range h.beats {
		h.beats[i] = map[*Watcher]struct{}{}
	}
	return h
}

// Watcher is one stream of a cluster's agent.
type Watcher struct {
	nudger  *Nudger
	cluster string
	group   int
	events  atomic.Uint32
	trace   atomic.Pointer[string] // of the last nudge that had one
	c       chan struct{}          // capacity 1
	nudged  time.Time              // when it had its last nudge, or came; guarded by the Nudger's mu
	late    *list.Element          // its place among those with a nudge to come; nil: it has none to come; guarded by the Nudger's mu
}

// Watch adds a watcher. The caller closes it.
func (h *Nudger) Watch(cluster string) *Watcher {
	w := &Watcher{nudger: h, cluster: cluster, c: make(chan struct{}, 1), nudged: time.Now()}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers[cluster] == nil {
		h.watchers[cluster] = map[*Watcher]struct{}{}
	}
	h.watchers[cluster][w] = struct{}{}
	w.group = h.next
	h.next = (h.next + 1) % groups
	h.beats[w.group][w] = struct{}{}
	h.count++
	return w
}

// Begin says whether the agent of a new watcher may ask at once. If not, its first nudge comes once those before it
// have asked.
func (w *Watcher) Begin() bool {
	h := w.nudger
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case w.late != nil:
		return false
	case len(h.asking) < mostAsking:
		h.asking[w.cluster] = time.Now()
		return true
	}
	w.nudged = time.Time{} // the first nudge keeps no distance
	w.late = h.late.PushBack(w)
	return false
}

// C receives when there is something to take.
func (w *Watcher) C() <-chan struct{} { return w.c }

// Take returns what there is to tell since the last time, and in which trace the last nudge was, if it had one.
func (w *Watcher) Take() (e Event, trace string) {
	e = Event(w.events.Swap(0))
	if e&Nudge != 0 {
		if last := w.trace.Swap(nil); last != nil {
			trace = *last
		}
	}
	return e, trace
}

func (w *Watcher) tell(e Event) {
	w.events.Or(uint32(e))
	select {
	case w.c <- struct{}{}:
	default: // the watcher has an event to take
	}
}

// Close takes the watcher out.
func (w *Watcher) Close() {
	w.nudger.mu.Lock()
	defer w.nudger.mu.Unlock()
	if _, ok := w.nudger.watchers[w.cluster][w]; !ok {
		return
	}
	delete(w.nudger.watchers[w.cluster], w)
	delete(w.nudger.beats[w.group], w)
	if w.late != nil {
		w.nudger.late.Remove(w.late)
	}
	w.nudger.count--
	if len(w.nudger.watchers[w.cluster]) == 0 {
		delete(w.nudger.watchers, w.cluster)
		w.nudger.asked(w.cluster)
	}
}

// Nudge tells the watchers of these clusters, each with its trace, and says how many are told. A watcher that had a
// nudge a moment ago has the next one later if the process is busy, and so has one while many others were nudged that
// have not asked yet.
func (h *Nudger) Nudge(clusters map[string]string) (told int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, pause := time.Now(), h.pause()
	for cluster, trace := range clusters {
		thin := telemetry.Thin(trace, cluster, followed, h.count)
		for w := range h.watchers[cluster] {
			if telemetry.Sampled(thin) {
				w.trace.Store(&thin)
			}
			if w.late != nil || w.events.Load()&uint32(Nudge) != 0 {
				continue // it is going to be told of this, too
			}
			told++
			if now.Sub(w.nudged) < pause || len(h.asking) >= mostAsking {
				w.late = h.late.PushBack(w)
				continue
			}
			h.tell(w, now)
		}
	}
	return told
}

// tell nudges a watcher. The caller holds mu.
func (h *Nudger) tell(w *Watcher, now time.Time) {
	w.nudged = now
	h.asking[w.cluster] = now
	w.tell(Nudge)
}

// Asked notes that the agent of a cluster has asked for what is new: another one may be nudged.
func (h *Nudger) Asked(cluster string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked(cluster)
}

// asked is Asked. The caller holds mu.
func (h *Nudger) asked(cluster string) {
	if _, nudged := h.asking[cluster]; !nudged {
		return
	}
	delete(h.asking, cluster)
	if first := h.late.Front(); first != nil && len(h.asking) < mostAsking {
		h.nudgeWaiting(first, time.Now(), h.pause())
	}
}

// nudgeWaiting nudges a watcher that waits, if the distance to its last nudge is kept. The caller holds mu.
func (h *Nudger) nudgeWaiting(first *list.Element, now time.Time, pause time.Duration) {
	w := first.Value.(*Watcher) //nolint:forcetypeassert // the list holds nothing else
	if now.Sub(w.nudged) < pause {
		return
	}
	h.late.Remove(first)
	w.late = nil
	h.tell(w, now)
}

// pause is between two nudges of a watcher.
func (h *Nudger) pause() time.Duration { return time.Duration(h.pressure() * float64(longestPause)) }

// nudgeLate tells the watchers whose nudge was put off for long enough, as many as there is room for.
func (h *Nudger) nudgeLate() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, pause := time.Now(), h.pause()
	for cluster, at := range h.asking {
		if now.Sub(at) > asksWithin {
			delete(h.asking, cluster)
		}
	}
	for e := h.late.Front(); e != nil && len(h.asking) < mostAsking; {
		next := e.Next()
		h.nudgeWaiting(e, now, pause)
		e = next
	}
}

// Thin returns the trace of a commit as it goes on to a cluster: to most of them as one that is not recorded.
func (h *Nudger) Thin(trace, cluster string) string {
	return telemetry.Thin(trace, cluster, followed, h.Watchers())
}

// Run gives every watcher its beats, and nudges that were put off, until ctx ends.
func (h *Nudger) Run(ctx context.Context) error {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for group := 0; ; group = (group + 1) % groups {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			h.nudgeLate()
			h.beat(group)
		}
	}
}

func (h *Nudger) beat(group int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.beats[group] {
		w.tell(Alive)
	}
}

// Watching says whether a cluster has a watcher.
func (h *Nudger) Watching(cluster string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers[cluster]) > 0
}

// ReportTurn tells the watchers of a cluster that there is time for reports that were put off.
func (h *Nudger) ReportTurn(cluster string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers[cluster] {
		w.tell(Report)
	}
}

// Watchers returns how many there are.
func (h *Nudger) Watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}
