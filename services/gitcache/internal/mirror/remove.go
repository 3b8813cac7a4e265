package mirror

import (
	"fmt"
	"os"
	"path/filepath"
)

// Remove removes one mirror. Whoever reads it finds it empty from now on.
func (s *Mirrors) Remove(uid string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.open[uid]; ok {
		m.replace(nil)
		delete(s.open, uid)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, folder(uid))); err != nil {
		return fmt.Errorf("remove mirror: %w", err)
	}
	return nil
}
