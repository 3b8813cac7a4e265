package mirror

import (
	"os"
	"path/filepath"
)

// Lookup is Mirror for those who only look: it makes none.
func (s *Mirrors) Lookup(uid string) (*Mirror, bool) {
	s.mu.Lock()
	m, open := s.open[uid]
	s.mu.Unlock()
	if open {
		return m, true
	}
	if _, err := os.Stat(filepath.Join(s.dir, folderName(uid))); err != nil {
		return nil, false
	}
	m, err := s.Mirror(uid)
	return m, err == nil
}
