// Package nudge tells the watchers of a cluster that there is something to do, and all watchers from time to
// time that there is nothing. The package never waits for a watcher: nudges that were not taken are one nudge, or one
// beat.
package nudge

import (
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
)

// Event is what there is to tell, as bits.
type Event uint32

// The events.
const (
	Nudge Event = 1 << iota // There is something to do.
	Alive                   // Nothing; the stream is to show that it lives.
)

// Hub is where watchers gather. The zero value is not usable: New. Run gives the beats. Safe for concurrent use.
type Hub struct {
	mu       sync.Mutex
	watchers map[string]map[*Watcher]struct{} // by cluster; guarded by mu
	beats    [groups]map[*Watcher]struct{}    // by when they have their beat; guarded by mu
	next     int                              // group of the next watcher; guarded by mu
	count    int                              // guarded by mu
}

// New returns a hub without watchers.
func New() *Hub {
	h := &Hub{watchers: map[string]map[*Watcher]struct{}{}}
	for i := range h.beats {
		h.beats[i] = map[*Watcher]struct{}{}
	}
	return h
}

// Watcher is one stream of a cluster's agent.
type Watcher struct {
	hub     *Hub
	cluster string
	group   int
	events  atomic.Uint32
	trace   atomic.Pointer[string] // of the last nudge that had one
	c       chan struct{}          // capacity 1
}

// Watch adds a watcher. The caller closes it.
func (h *Hub) Watch(cluster string) *Watcher {
	w := &Watcher{hub: h, cluster: cluster, c: make(chan struct{}, 1)}
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

// tell reports whether it was news.
func (w *Watcher) tell(e Event) bool {
	news := Event(w.events.Or(uint32(e)))&e == 0
	select {
	case w.c <- struct{}{}:
	default: // the watcher has a nudge to take
	}
	return news
}

// Close takes the watcher out.
func (w *Watcher) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if _, ok := w.hub.watchers[w.cluster][w]; !ok {
		return
	}
	delete(w.hub.watchers[w.cluster], w)
	if len(w.hub.watchers[w.cluster]) == 0 {
		delete(w.hub.watchers, w.cluster)
	}
	delete(w.hub.beats[w.group], w)
	w.hub.count--
}

// Nudge tells the watchers of these clusters, each with its trace, and says how many were told.
func (h *Hub) Nudge(clusters map[string]string) (told int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for cluster, trace := range clusters {
		thin := telemetry.Thin(trace, cluster, followed, h.count)
		for w := range h.watchers[cluster] {
			if telemetry.Sampled(thin) {
				w.trace.Store(&thin)
			}
			if w.tell(Nudge) {
				told++
			}
		}
	}
	return told
}

// Thin returns the trace of a commit as it goes on to a cluster: to most of them as one that is not recorded.
func (h *Hub) Thin(trace, cluster string) string {
	return telemetry.Thin(trace, cluster, followed, h.Watchers())
}

// Run gives every watcher its beats until ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for group := 0; ; group = (group + 1) % groups {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			h.beat(group)
		}
	}
}

func (h *Hub) beat(group int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.beats[group] {
		w.tell(Alive)
	}
}

// Watchers returns how many there are.
func (h *Hub) Watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}
