// Package mirror keeps bare repositories on disk, one per source, and what is known of their heads.
//
// Invariants: a pack is visible only when all of it was checked and is durable; heads are written only
// after the objects they need; the packs of a copy become visible all at once, when it is whole; packs are
// replaced only by one that has all of their objects; what a killed process left half done is finished or
// swept when the mirror is opened; a mirror that is in doubt and not whole is replaced by a fresh clone made
// beside it. Objects are read back only after they were hashed again. Nothing that was fetched is ever
// thrown away, but with its source or by a fresh clone.
//
// Bounds, whatever comes from upstream: 64 packs open in all mirrors together and none of idle ones; 8 MiB
// of cache in all; 64 MiB for objects while a pack is taken in, and about 50 bytes for each of its objects;
// at most 20 packs per mirror, or as many as can double in size, once it was maintained. A file of any size up to
// 4 GiB passes without being held; who reads one says how much they take.
package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"fairlead.dev/services/gitcache/internal/host"
	"fairlead.dev/services/gitcache/internal/pack"
)

// Mirrors is the folder of all mirrors of a replica.
type Mirrors struct {
	dir     string
	log     *slog.Logger
	readers *readers
	upkeep  *upkeep
	bounds  pack.Bounds
	free    func(dir string) float64 // the part of its disk

	mu   sync.Mutex // guards open
	open map[string]*Mirror
}

// Open makes the folder if need be. Open opens no mirror.
func Open(dir string, log *slog.Logger) (*Mirrors, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of mirrors: %w", err)
	}
	return &Mirrors{dir: dir, log: log, readers: newReaders(), upkeep: newUpkeep(), bounds: pack.UsualBounds(), free: host.FreeShare, open: map[string]*Mirror{}}, nil
}

// AllowExpansion bounds what all objects of a pack that comes are together, in times of its size. Call it before any
// mirror is opened.
func (s *Mirrors) AllowExpansion(times int64) { s.bounds.Expansion = times }

// MeasureFree replaces how the free part of a folder's disk is measured. Call it before any mirror is opened.
func (s *Mirrors) MeasureFree(free func(dir string) float64) { s.free = free }

// Mirror returns the mirror of a source, which may be empty. All callers get the same one.
func (s *Mirrors) Mirror(uid string) (*Mirror, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.open[uid]; ok {
		return m, nil
	}
	m, err := s.openMirror(filepath.Join(s.dir, folderName(uid)))
	if err != nil {
		return nil, fmt.Errorf("open mirror: %w", err)
	}
	s.open[uid] = m
	return m, nil
}

// Close gives descriptors back. The descriptors of readers that are not closed are included.
func (s *Mirrors) Close() {
	s.readers.closeAll()
}

// plainUID are uids that are safe as a folder's name. The console gives no others.
var plainUID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`)

func folderName(uid string) string {
	if plainUID.MatchString(uid) {
		return uid
	}
	sum := sha256.Sum256([]byte(uid))
	return "x" + hex.EncodeToString(sum[:])
}
