package proxy

import "sync"

// perPerson is how many requests one person, or one program, may have under way at a cluster: half of what a session
// with its agent carries at once.
const perPerson = 512

// shares counts the requests that are under way, by cluster and caller.
type shares struct {
	mu    sync.Mutex // guards taken
	taken map[share]int
}

type share struct{ cluster, caller string }

// takeShare counts a request of a caller. False: there are too many already. Call give when it has ended.
func (s *shares) takeShare(of share) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[of] >= perPerson {
		return false
	}
	s.taken[of]++
	return true
}

func (s *shares) giveShare(of share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[of]--; s.taken[of] == 0 {
		delete(s.taken, of)
	}
}
