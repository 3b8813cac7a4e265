package server

import (
	"container/list"
	"sync"
)

// room has places for what strangers hold: so many per network, and so many in all. Something new always gets a place, and where there is none
// the oldest of its network, or of all, is cut: whoever is quick is never kept out by those who wait.
type room struct {
	perNetwork, most int

	mu       sync.Mutex            // guards what follows
	all      *list.List            // of *place, the oldest first
	networks map[string]*list.List // the same by network
}

// place is what somebody has in a room.
type place struct {
	network     string
	cut         func()
	all, theirs *list.Element // nil: it left, or was cut
}

func newRoom(perNetwork, most int) *room {
	return &room{perNetwork: perNetwork, most: most, all: list.New(), networks: map[string]*list.List{}}
}

// enter gives a place, which is left by leave, or by cut when another one needs it.
func (r *room) enter(network string, cut func()) *place {
	p := &place{network: network, cut: cut}
	oldest := r.add(p)
	if oldest != nil {
		oldest.cut()
	}
	return p
}

// add returns who has to go.
func (r *room) add(p *place) (oldest *place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	theirs, ok := r.networks[p.network]
	if !ok {
		theirs = list.New()
		r.networks[p.network] = theirs
	}
	p.all, p.theirs = r.all.PushBack(p), theirs.PushBack(p)
	switch {
	case theirs.Len() > r.perNetwork:
		oldest, _ = theirs.Front().Value.(*place)
	case r.all.Len() > r.most:
		oldest, _ = r.all.Front().Value.(*place)
	}
	if oldest != nil {
		r.remove(oldest)
	}
	return oldest
}

// leave gives a place back; more than once does no harm.
func (r *room) leave(p *place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(p)
}

// remove needs the mutex.
func (r *room) remove(p *place) {
	if p.all == nil {
		return
	}
	theirs := r.networks[p.network]
	r.all.Remove(p.all)
	theirs.Remove(p.theirs)
	p.all, p.theirs = nil, nil
	if theirs.Len() == 0 {
		delete(r.networks, p.network)
	}
}
