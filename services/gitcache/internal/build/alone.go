package build

import "sync"

// alone remembers source_ids of folders that nothing leads out of, also of those that are built elsewhere:
// what the present generation or the one before it has used. Each generation has at most maxPlaces, of about 50 bytes.
type alone struct {
	mu       sync.Mutex // guards what follows
	now, was map[key]struct{}
}

func (s *alone) hasID(id key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.now[id]; ok {
		return true
	}
	_, ok := s.was[id]
	if ok {
		s.addID(id)
	}
	return ok
}

func (s *alone) putID(id key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addID(id)
}

// addID puts an id into the present generation. A full generation begins the next. mu is held.
func (s *alone) addID(id key) {
	if s.now == nil || len(s.now) >= maxPlaces {
		s.now, s.was = map[key]struct{}{}, s.now
	}
	s.now[id] = struct{}{}
}
