package identity

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// RecheckInterval is how often the token of a running stream or request is verified again.
	RecheckInterval = 10 * time.Second
	// roundEvery is the time between two groups of guards: all of a group check at once, so that ten thousand streams
	// wake the process up four times per second and not a thousand times.
	roundEvery  = 250 * time.Millisecond
	roundGroups = int(RecheckInterval / roundEvery)
)

// rounds has the guards of running requests check, each once per RecheckInterval. The zero value is ready. Safe for
// concurrent use.
type rounds struct {
	mu     sync.Mutex
	groups [roundGroups]map[*guard]struct{} // by when they check; guarded by mu
	next   int                              // group of the next guard; guarded by mu
	turn   int                              // group that checks next; guarded by mu
	count  int                              // guarded by mu
	timer  *time.Timer                      // of the next turn; nil while there is nobody; guarded by mu
}

func (r *rounds) join(g *guard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g.group = r.next
	r.next = (r.next + 1) % roundGroups
	if r.groups[g.group] == nil {
		r.groups[g.group] = map[*guard]struct{}{}
	}
	r.groups[g.group][g] = struct{}{}
	r.count++
	if r.timer == nil {
		r.timer = time.AfterFunc(roundEvery, r.walk)
	}
}

func (r *rounds) leave(g *guard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups[g.group], g)
	r.count--
}

// walk is a turn. A verifier that is slow with one token holds up no other.
func (r *rounds) walk() {
	for _, g := range r.take() {
		go g.check()
	}
}

// take takes the next turn, and sees to the one after it.
func (r *rounds) take() []*guard {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer = nil; r.count > 0 {
		r.timer = time.AfterFunc(roundEvery, r.walk)
	}
	guards := slices.Collect(maps.Keys(r.groups[r.turn]))
	r.turn = (r.turn + 1) % roundGroups
	return guards
}
