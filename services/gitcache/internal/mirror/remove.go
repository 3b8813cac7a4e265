package mirror

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// gonePrefix begins the names of folders that are being removed. No mirror's begins so.
const gonePrefix = ".gone-"

const (
	// goneName is in the folder of a mirror whose source is gone: when it was seen to be, by its time.
	goneName = "gone"
	// keepGone is how long such a mirror stays. A console that was restored from a backup, or lost a source,
	// must not cost a clone of everything, which upstream may not even give at that moment.
	keepGone = 6 * time.Hour
	// freeDisk: with a smaller part of the disk free none of them stays.
	freeDisk = 0.05
)

// Keep removes the mirrors of sources that are gone for a while, and returns how many went and how many
// wait for it. The mirror of a source that came back is as it was.
func (s *Mirrors) Keep(uids map[string]bool) (removed, waiting int, err error) {
	gone, waiting, err := s.asideOthers(uids)
	if err != nil {
		return 0, waiting, err
	}
	for i, dir := range gone {
		if err := os.RemoveAll(dir); err != nil {
			return i, waiting, fmt.Errorf("remove mirror: %w", err)
		}
	}
	return len(gone), waiting, nil
}

// asideOthers puts the mirrors aside whose sources are gone for long enough, and says where they are. Folders that a
// killed process has not removed are there, too.
func (s *Mirrors) asideOthers(uids map[string]bool) (gone []string, waiting int, err error) {
	wanted, open := map[string]bool{}, map[string]string{}
	for uid := range uids {
		wanted[folderName(uid)] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid := range s.open {
		open[folderName(uid)] = uid
	}
	found, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, 0, fmt.Errorf("list mirrors: %w", err)
	}
	scarce := s.free(s.dir) < freeDisk
	for _, e := range found {
		name := e.Name()
		mark := filepath.Join(s.dir, name, goneName)
		switch {
		case wanted[name]:
			if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return gone, waiting, fmt.Errorf("keep mirror: %w", err)
			}
			continue
		case !strings.HasPrefix(name, gonePrefix) && !scarce && noteGone(mark):
			waiting++
			continue
		}
		if uid, ok := open[name]; ok {
			s.forgetMirror(uid)
		}
		dir, err := s.moveAside(name)
		if err != nil {
			return gone, waiting, err
		}
		gone = append(gone, dir)
	}
	return gone, waiting, nil
}

// noteGone says whether a mirror whose source is gone is kept, and notes since when it is gone. A mirror without a note
// goes: it would stay for ever.
func noteGone(mark string) bool {
	info, err := os.Stat(mark)
	if errors.Is(err, fs.ErrNotExist) {
		return os.WriteFile(mark, nil, 0o600) == nil
	}
	return err == nil && time.Since(info.ModTime()) < keepGone
}

// Exists says whether there is a mirror of a source, also of one that is gone.
func (s *Mirrors) Exists(uid string) bool {
	_, err := os.Stat(filepath.Join(s.dir, folderName(uid)))
	return err == nil
}

// Remove removes one mirror. Readers find the mirror empty from now on.
func (s *Mirrors) Remove(uid string) error {
	s.mu.Lock()
	s.forgetMirror(uid)
	dir, err := s.moveAside(folderName(uid))
	s.mu.Unlock()
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove mirror: %w", err)
	}
	return nil
}

// forgetMirror empties a mirror for those who have it. mu is held.
func (s *Mirrors) forgetMirror(uid string) {
	if m, ok := s.open[uid]; ok {
		m.replacePacks(nil)
		m.mu.Lock()
		m.removed = true
		m.mu.Unlock()
		delete(s.open, uid)
	}
}

// moveAside renames a folder, which is quick, so that nobody waits for mu while it is removed. mu is held.
func (s *Mirrors) moveAside(name string) (string, error) {
	if strings.HasPrefix(name, gonePrefix) {
		return filepath.Join(s.dir, name), nil
	}
	to := filepath.Join(s.dir, gonePrefix+rand.Text())
	if err := os.Rename(filepath.Join(s.dir, name), to); err != nil {
		return "", fmt.Errorf("put mirror aside: %w", err)
	}
	return to, nil
}
