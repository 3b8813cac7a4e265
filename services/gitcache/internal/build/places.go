package build

import (
	"maps"
	"sync"
	"time"
)

const (
	// At most so many places are known without looking, in each of two generations; about 600 bytes each.
	// fewPlaces are kept if less are current.
	maxPlaces = 20_000
	fewPlaces = 512
)

// places remembers what was found lately: what the present generation or the one before it has used.
type places struct {
	now func() time.Time

	mu            sync.Mutex // guards what follows
	present, past map[Place]found
	current       int // so many are asked about again and again
}

func newPlaces() *places { return &places{now: time.Now, present: map[Place]found{}} }

func (s *places) getPlace(p Place) (found, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.present[p]
	if !ok {
		if f, ok = s.past[p]; ok {
			s.addPlace(p, f)
		}
	}
	if !f.until.IsZero() && !s.now().Before(f.until) {
		s.dropPlace(p)
		return found{}, false
	}
	return f, ok
}

func (s *places) forgetPlace(p Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropPlace(p)
}

// dropPlace is forgetPlace. mu is held.
func (s *places) dropPlace(p Place) {
	delete(s.present, p)
	delete(s.past, p)
}

func (s *places) putPlace(p Place, f found) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addPlace(p, f)
}

// addPlace puts a place into the present generation. A full generation begins the next. mu is held.
func (s *places) addPlace(p Place, f found) {
	if len(s.present) >= max(fewPlaces, min(2*s.current, maxPlaces)) {
		s.present, s.past = map[Place]found{}, s.present
	}
	s.present[p] = f
}

// expectPlaces says how many places are current.
func (s *places) expectPlaces(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = n
}

// forgetOthers forgets all sources but those that are here.
func (s *places) forgetOthers(here func(uid string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]bool{} // each answer is a question to the disk
	for _, some := range []map[Place]found{s.present, s.past} {
		maps.DeleteFunc(some, func(p Place, _ found) bool {
			is, asked := known[p.Source]
			if !asked {
				is = here(p.Source)
				known[p.Source] = is
			}
			return !is
		})
	}
}

func (s *places) countPlaces() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.present) + len(s.past)
}
