package artifact

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// moveAside moves a bad file aside, unless a good one took its name in the meantime.
func (s *Store) moveAside(d Digest, bad *os.File, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countBad(cause)
	s.log.Warn("artifact is bad, it goes to quarantine", "digest", d, "err", cause)
	mine, err1 := bad.Stat()
	there, err2 := os.Lstat(s.pathOf(d))
	if err1 != nil || err2 != nil || !os.SameFile(mine, there) {
		return
	}
	if err := os.Rename(s.pathOf(d), filepath.Join(s.dir, quarantineDir, d.Hex()+storedSuffix)); err != nil {
		// The bad file must not be served again, whatever happens.
		err = errors.Join(err, os.Remove(s.pathOf(d)))
		s.log.Warn("quarantine artifact", "digest", d, "err", err)
	}
	s.dropItem(d)
	s.sweepQuarantine()
}

// sweepQuarantine keeps the newest bad files. mu is held.
func (s *Store) sweepQuarantine() { s.keepQuarantined(maxQuarantined, maxQuarantinedBytes) }

// keepQuarantined removes bad files until at most so many and so large are left, the oldest first, and
// says whether any went. mu is held.
func (s *Store) keepQuarantined(files int, bytes int64) (removed bool) {
	dir := filepath.Join(s.dir, quarantineDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	var bad []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			bad = append(bad, info)
			bytes -= info.Size()
		}
	}
	slices.SortFunc(bad, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for len(bad) > 0 && (len(bad) > files || bytes < 0) {
		if err := os.Remove(filepath.Join(dir, bad[0].Name())); err != nil {
			s.log.Warn("sweep quarantine", "err", err)
		} else {
			removed = true
		}
		bytes += bad[0].Size()
		bad = bad[1:]
	}
	return removed
}

// loseArtifact drops an artifact whose file the disk does not give any more. Its name is free for a good one.
func (s *Store) loseArtifact(d Digest, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countBad(cause)
	s.log.Warn("artifact can't be read, it is given up", "digest", d, "err", cause)
	_ = os.Remove(s.pathOf(d)) // a file that stays is counted again after a restart, or replaced
	s.dropItem(d)
}

// countBad counts an artifact that went bad. A disk that does not give back what it took is not trusted
// with more for a while. mu is held.
func (s *Store) countBad(cause error) {
	s.stats.Corrupt++
	if errors.Is(cause, syscall.EIO) {
		s.failed = time.Now()
	}
}

// trustsDisk says whether the disk may be given something.
func (s *Store) trustsDisk() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed.IsZero() || time.Since(s.failed) > retryTime
}
