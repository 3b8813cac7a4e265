// Package shares bounds what each of many owners (people, clusters, networks) has of something that they all use, so
// that none of them has all of it.
package shares

import "sync"

// Shares counts what owners have.
type Shares struct {
	most int64

	mu   sync.Mutex       // guards held
	held map[string]int64 // by owner; an owner without anything is not in it
}

// New makes shares of at most so much for each owner.
func New(most int64) *Shares { return &Shares{most: most, held: map[string]int64{}} }

// Take gives an owner n more, or nothing and false if that would be more than a share. Give it back.
func (s *Shares) Take(owner string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[owner]+n > s.most {
		return false
	}
	s.held[owner] += n
	return true
}

// Give takes back what Take gave.
func (s *Shares) Give(owner string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[owner] -= n; s.held[owner] <= 0 {
		delete(s.held, owner)
	}
}
