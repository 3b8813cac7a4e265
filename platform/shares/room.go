package shares

import (
	"container/list"
	"sync"
)

// Room has places for what strangers hold: so many per network, and so many in all. Something new always gets a place,
// and where there is none the oldest of its network, or of all, is cut: callers that wait never
// keep out callers that are quick.
type Room struct {
	perNetwork, most int

	mu       sync.Mutex            // guards what follows
	all      *list.List            // of *Place, the oldest first
	networks map[string]*list.List // the same by network
}

// Place is what somebody has in a room.
type Place struct {
	network     string
	cut         func()
	all, theirs *list.Element // nil: it left, or was cut
}

// NewRoom makes a room of so many places per network, and so many in all.
func NewRoom(perNetwork, most int) *Room {
	return &Room{perNetwork: perNetwork, most: most, all: list.New(), networks: map[string]*list.List{}}
}

// Enter gives a place, which is left by Leave, or by cut when another one needs it.
func (r *Room) Enter(network string, cut func()) *Place {
	p := &Place{network: network, cut: cut}
	oldest := r.add(p)
	if oldest != nil {
		oldest.cut()
	}
	return p
}

// add returns the place that is cut; nil: none is.
func (r *Room) add(p *Place) (oldest *Place) {
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
		oldest, _ = theirs.Front().Value.(*Place)
	case r.all.Len() > r.most:
		oldest, _ = r.all.Front().Value.(*Place)
	}
	if oldest != nil {
		r.remove(oldest)
	}
	return oldest
}

// Leave gives a place back; more than once does no harm.
func (r *Room) Leave(p *Place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(p)
}

// remove needs the mutex.
func (r *Room) remove(p *Place) {
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
