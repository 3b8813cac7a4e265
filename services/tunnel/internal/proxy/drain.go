package proxy

import (
	"context"
	"sync"
	"time"
)

// lookEvery is how often a drain looks whether a watch can go on elsewhere, lookFor how long it waits for that.
const lookEvery, lookFor = 50 * time.Millisecond, 3 * time.Second

// drain knows which requests run: those from before it began are waited for.
type drain struct {
	mu      *sync.Mutex // guards what follows
	now     *running
	begun   bool
	over    bool // watches end as they begin
	watches map[*watch]struct{}
}

// running counts requests.
type running struct {
	mu   *sync.Mutex // the drain's; guards what follows
	n    int
	last bool          // no more are added
	done chan struct{} // closed when none is left of the last
}

func newDrain() drain {
	mu := &sync.Mutex{}
	return drain{mu: mu, now: &running{mu: mu, done: make(chan struct{})}, watches: make(map[*watch]struct{})}
}

// beginRequest counts a request in, and says whether this replica drains.
func (d *drain) beginRequest() (of *running, draining bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now.n++
	return d.now, d.begun
}

func (r *running) endRequest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n--
	if r.last && r.n == 0 {
		close(r.done)
	}
}

// addWatch counts a watch in until the function that it returns is called.
func (d *drain) addWatch(w *watch) (remove func()) {
	d.mu.Lock()
	d.watches[w] = struct{}{}
	over := d.over
	d.mu.Unlock()
	if over {
		w.endWatch()
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watches, w)
	}
}

func (d *drain) listWatches() []*watch {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]*watch, 0, len(d.watches))
	for w := range d.watches {
		list = append(list, w)
	}
	return list
}

// Drain ends the watches, each between two events and as soon as it can go on at another replica, and waits until
// the requests that ran when it was called have ended, or ctx has.
func (h *Handler) Drain(ctx context.Context) {
	d := &h.drain
	d.mu.Lock()
	before := d.now
	d.begun, before.last = true, true
	d.now = &running{mu: d.mu, done: make(chan struct{})}
	if before.n == 0 {
		close(before.done)
	}
	d.mu.Unlock()
	h.endWatches(ctx)
	select {
	case <-ctx.Done():
	case <-before.done:
	}
	d.mu.Lock()
	d.over = true
	d.mu.Unlock()
	for _, w := range d.listWatches() {
		w.endWatch()
	}
}

// endWatches ends those that can go on elsewhere, and after a while all that ran at first.
func (h *Handler) endWatches(ctx context.Context) {
	left := h.drain.listWatches()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for deadline := time.After(lookFor); len(left) > 0; {
		var stay []*watch
		alone := len(h.Peers.Others()) == 0
		for _, w := range left {
			if alone || h.Peers.Elsewhere(ctx, w.cluster) {
				w.endWatch()
			} else {
				stay = append(stay, w)
			}
		}
		left = stay
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		case <-deadline:
		}
		for _, w := range left {
			w.endWatch()
		}
		return
	}
}
