// Package nudge tells the watchers of a cluster that there is something to do. It never waits for
// one: nudges that were not taken are one nudge.
package nudge

import "sync"

// Hub is where watchers gather. The zero value is not usable: New. Safe for concurrent use.
type Hub struct {
	mu       sync.Mutex
	watchers map[string]map[*Watcher]struct{} // by cluster; guarded by mu
	count    int                              // guarded by mu
}

// New returns a hub without watchers.
func New() *Hub { return &Hub{watchers: map[string]map[*Watcher]struct{}{}} }

// Watcher is one stream of a cluster's agent.
type Watcher struct {
	hub     *Hub
	cluster string
	c       chan struct{} // capacity 1
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
	h.count++
	return w
}

// C receives when there is something to do.
func (w *Watcher) C() <-chan struct{} { return w.c }

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
	w.hub.count--
}

// Nudge tells the watchers of these clusters, and says how many were told.
func (h *Hub) Nudge(clusters map[string]struct{}) (told int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for cluster := range clusters {
		for w := range h.watchers[cluster] {
			select {
			case w.c <- struct{}{}:
				told++
			default: // it has one to take
			}
		}
	}
	return told
}

// Watchers returns how many there are.
func (h *Hub) Watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}
