package mirror

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// gonePrefix begins the names of folders that are being removed. No mirror's begins so.
const gonePrefix = ".gone-"

// Keep removes all mirrors but those of these sources, and returns how many went.
func (s *Mirrors) Keep(uids map[string]bool) (int, error) {
	gone, err := s.others(uids)
	if err != nil {
		return 0, err
	}
	for i, dir := range gone {
		if err := os.RemoveAll(dir); err != nil {
			return i, fmt.Errorf("remove mirror: %w", err)
		}
	}
	return len(gone), nil
}

// others puts all mirrors aside but those of these sources, and says where they are. What a killed process
// has not removed is there, too.
func (s *Mirrors) others(uids map[string]bool) (gone []string, err error) {
	wanted := map[string]bool{}
	for uid := range uids {
		wanted[folder(uid)] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list mirrors: %w", err)
	}
	for uid := range s.open {
		if !uids[uid] {
			s.forget(uid)
		}
	}
	for _, e := range found {
		if wanted[e.Name()] {
			continue
		}
		dir, err := s.aside(e.Name())
		if err != nil {
			return nil, err
		}
		gone = append(gone, dir)
	}
	return gone, nil
}

// Remove removes one mirror. Whoever reads it finds it empty from now on.
func (s *Mirrors) Remove(uid string) error {
	s.mu.Lock()
	s.forget(uid)
	dir, err := s.aside(folder(uid))
	s.mu.Unlock()
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove mirror: %w", err)
	}
	return nil
}

// forget empties a mirror for those who have it. mu is held.
func (s *Mirrors) forget(uid string) {
	if m, ok := s.open[uid]; ok {
		m.replace(nil)
		delete(s.open, uid)
	}
}

// aside renames a folder, which is quick, so that nobody waits for mu while it is removed. mu is held.
func (s *Mirrors) aside(name string) (string, error) {
	if strings.HasPrefix(name, gonePrefix) {
		return filepath.Join(s.dir, name), nil
	}
	to := filepath.Join(s.dir, gonePrefix+rand.Text())
	if err := os.Rename(filepath.Join(s.dir, name), to); err != nil {
		return "", fmt.Errorf("put mirror aside: %w", err)
	}
	return to, nil
}
