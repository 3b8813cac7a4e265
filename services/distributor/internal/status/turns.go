package status

import (
	"container/list"
	"sync"
	"time"
)

const (
	// callAhead is how much of the line called clusters fill, at its current rate, and leastCalled clusters are called in
	// any case: the line must not run empty before they come, and those that come by themselves need room, too.
	callAhead, leastCalled = 8 * time.Second, 64
	// comesWithin is how long a called cluster counts as one that is on its way.
	comesWithin = 10 * time.Second
)

// Agents are those with a stream at this distributor.
type Agents interface {
	// Watching says whether an agent of the cluster hears what it is told.
	Watching(cluster string) bool
	// ReportTurn tells the cluster's agent to send the reports that were put off.
	ReportTurn(cluster string)
}

// turns are the clusters whose reports were put off, in the order in which they came. A cluster in this line costs an
// entry in a list; a cluster that asks again and again costs calls.
type turns struct {
	mu     sync.Mutex
	line   list.List                // of string; guarded by mu
	places map[string]*list.Element // guarded by mu
	called map[string]time.Time     // when these were called, and have not come since; guarded by mu
}

func newTurns() *turns {
	return &turns{places: map[string]*list.Element{}, called: map[string]time.Time{}}
}

// putOff gives a cluster the last place, unless it has one.
func (t *turns) putOff(cluster string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.called, cluster)
	if t.places[cluster] == nil {
		t.places[cluster] = t.line.PushBack(cluster)
	}
}

// came takes out a cluster that is here.
func (t *turns) came(cluster string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.called, cluster)
	t.leave(cluster)
}

// leave gives a cluster's place up. The caller holds mu.
func (t *turns) leave(cluster string) {
	if place := t.places[cluster]; place != nil {
		t.line.Remove(place)
		delete(t.places, cluster)
	}
}

// call takes out the first clusters, as many as there is room for beside those that are on their way.
func (t *turns) call(room int, now time.Time, agents Agents) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for cluster, at := range t.called {
		if now.Sub(at) > comesWithin {
			delete(t.called, cluster)
		}
	}
	for first := t.line.Front(); first != nil && len(t.called) < room; first = t.line.Front() {
		cluster := first.Value.(string) //nolint:forcetypeassert // the list holds nothing else
		t.leave(cluster)
		if agents.Watching(cluster) { // any other one comes by itself
			t.called[cluster] = now
			agents.ReportTurn(cluster)
		}
	}
}
