package artifact

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// DefaultMaxBytes of a store: the current artifacts of thousands of services.
	DefaultMaxBytes = 10 << 30
	// FillTimeout ends a fill that nobody may be waiting for any more.
	FillTimeout = 5 * time.Minute

	tempPrefix    = "tmp-"
	storedSuffix  = ".tar.zst"
	quarantineDir = "quarantine"
	// Of bad files some are kept for whoever looks into the cause.
	maxQuarantined      = 8
	maxQuarantinedBytes = 64 << 20
	// maxPassing artifacts are passed through at once: each is made or fetched for one caller alone.
	maxPassing = 8
	// maxRanges are served at once: each is read from the artifact's begin, and to its end where that was not found
	// good of late.
	maxRanges = 4
	// passingTime is how long a caller waits for a turn before it is told to come back.
	passingTime = 30 * time.Second
)

var (
	// ErrNotFound: the artifact is not here, or the caller may not know of it. ErrNotFound is an fs.ErrNotExist.
	ErrNotFound = fmt.Errorf("artifact not found: %w", fs.ErrNotExist)
	// ErrNoSpace: the store is full of pinned artifacts, or its disk is full or fails. The artifact
	// was not stored; it can still be passed through.
	ErrNoSpace = errors.New("no space for the artifact")
	// ErrCorrupt: the bytes do not hash to the digest.
	ErrCorrupt = errors.New("bytes do not match the digest")
)

// Options of a Store.
type Options struct {
	MaxBytes int64  // on disk, compressed; 0: DefaultMaxBytes
	Limits   Limits // of each artifact
	// Memory holds, in bytes, compressed artifacts that the disk does not take, so that they need not
	// be made or fetched again for everybody who wants them; 0: they are.
	Memory int64
	Log    *slog.Logger
}

// Store is a disk cache of artifacts, zstd-compressed, one file each. A Store is safe for concurrent use; a folder
// belongs to one store at a time.
//
// A file appears under its final name only when it is whole and on the disk (write, fsync, rename,
// fsync the folder). Each file is hashed before it is used for the first time after a start, and again when its size or
// time changed. The sum of all files stays within MaxBytes: the least recently used go first, pinned ones never.
type Store struct {
	dir      string
	maxBytes int64
	limits   Limits
	log      *slog.Logger
	newTemp  func(dir string) (tempFile, error)
	encoders sync.Pool // of *zstd.Encoder, which are costly to make
	spare    *spare
	passing  chan struct{}      // turns of those who pass an artifact through
	ranges   chan struct{}      // places of ranges
	fills    singleflight.Group // by digest
	checks   singleflight.Group // by digest
	life     context.Context    //nolint:containedctx // of fills, which outlive their callers; ended by Close
	end      context.CancelFunc
	filling  sync.WaitGroup

	// mu guards everything below, and every rename to and removal of a final name.
	mu     sync.Mutex
	closed bool
	items  map[Digest]*list.Element // of *item
	recent *list.List               // most recently used first
	pinned map[Digest]struct{}
	bytes  int64 // of all items, and what is being written
	stats  Stats
	failed time.Time // when the disk last failed to give back what it took
}

// item is an artifact on the disk.
type item struct {
	digest Digest
	stored int64
	good   *check // nil: not hashed since start
}

// check is what is known of a file that hashed to its digest.
type check struct {
	size    int64  // of the uncompressed tar
	stored  int64  // of the file
	sum     uint64 // xxhash of the file's bytes, for a second look while serving them
	modTime time.Time
	seen    seen // when it was read to its end last; zero: not since the start
}

// sameFile says whether two are of the same file.
func (c *check) sameFile(other *check) bool {
	return c.stored == other.stored && c.sum == other.sum && c.modTime.Equal(other.modTime)
}

func (c *check) holdsFor(info fs.FileInfo) bool {
	return c != nil && c.stored == info.Size() && c.modTime.Equal(info.ModTime())
}

// Stats tells what is in a store, and what happened since it was opened.
type Stats struct {
	Artifacts, Pinned      int
	Bytes, MaxBytes        int64
	Hits, Misses           int64
	Evicted, Corrupt, Full int64
}

// tempFile is what the store needs of an *os.File that it writes.
type tempFile interface {
	io.Writer
	Sync() error
	Stat() (fs.FileInfo, error)
	Close() error
	Name() string
}

// OpenStore opens the store in dir, creating the folder if need be. OpenStore sweeps what a killed process left half
// written and counts the rest, without reading it.
func OpenStore(dir string, o Options) (*Store, error) {
	s := &Store{
		dir: dir, maxBytes: o.MaxBytes, limits: o.Limits.withDefaults(), log: o.Log, newTemp: createTemp,
		spare: newSpare(o.Memory), passing: make(chan struct{}, maxPassing), ranges: make(chan struct{}, maxRanges),
		items: map[Digest]*list.Element{}, recent: list.New(), pinned: map[Digest]struct{}{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	if s.maxBytes == 0 {
		s.maxBytes = DefaultMaxBytes
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(filepath.Join(dir, quarantineDir), 0o700); err != nil {
		return nil, fmt.Errorf("open artifact store: %w", err)
	}
	if err := s.scanFolder(); err != nil {
		return nil, fmt.Errorf("open artifact store: %w", err)
	}
	return s, nil
}

// createTemp makes the folder again if it was deleted under a store that is in use.
func createTemp(dir string) (tempFile, error) {
	f, err := os.CreateTemp(dir, tempPrefix+"*")
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(dir, 0o700) == nil {
		return os.CreateTemp(dir, tempPrefix+"*")
	}
	return f, err
}

// scanFolder sweeps temporary files and takes the others in, the oldest as the least recently used.
func (s *Store) scanFolder() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var found []fs.FileInfo
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), tempPrefix):
			if err := os.Remove(filepath.Join(s.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("sweep: %w", err)
			}
		case strings.HasSuffix(e.Name(), storedSuffix) && e.Type().IsRegular():
			if info, err := e.Info(); err == nil {
				found = append(found, info)
			}
		}
	}
	slices.SortFunc(found, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range found {
		d, err := ParseDigest(digestPrefix + strings.TrimSuffix(info.Name(), storedSuffix))
		if err != nil {
			continue // not ours
		}
		s.items[d] = s.recent.PushFront(&item{digest: d, stored: info.Size()})
		s.bytes += info.Size()
	}
	return nil
}

func (s *Store) pathOf(d Digest) string { return filepath.Join(s.dir, d.Hex()+storedSuffix) }

// Has says whether the artifact is in the store. The artifact may yet turn out to be bad: Open tells.
func (s *Store) Has(d Digest) bool { return s.isStored(d) || s.spare.hasCopy(d) }

func (s *Store) isStored(d Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[d] != nil
}

// Pin replaces the set of artifacts that are never evicted. The artifacts need not be here yet.
func (s *Store) Pin(digests []Digest) {
	pinned := make(map[Digest]struct{}, len(digests))
	for _, d := range digests {
		pinned[d] = struct{}{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = pinned
}

// PinAlso adds an artifact to those that are never evicted.
func (s *Store) PinAlso(d Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned[d] = struct{}{}
}

// Stats returns the current figures.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Artifacts, st.Bytes, st.MaxBytes = len(s.items), s.bytes, s.maxBytes
	for d := range s.pinned {
		if s.items[d] != nil {
			st.Pinned++
		}
	}
	return st
}

// Open returns an artifact that was verified, or ErrNotFound. The caller closes it. A file that is
// bad goes to quarantine and is not found.
func (s *Store) Open(d Digest) (*Blob, error) {
	b, err := s.openStored(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.stats.Hits++
	case errors.Is(err, ErrNotFound):
		s.stats.Misses++
	}
	return b, err
}

func (s *Store) openStored(d Digest) (*Blob, error) {
	known := s.touchItem(d)
	if known == nil {
		return s.openSpare(d)
	}
	f, err := os.Open(s.pathOf(d))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.forgetItem(d)
		return nil, ErrNotFound
	case errors.Is(err, syscall.EIO):
		s.loseArtifact(d, err)
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("open artifact: %w", err)
	}
	b, err := s.openVerified(d, f, known.good)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return b, nil
}

// openVerified makes f a blob, hashing it if what is known is not yet known to hold.
func (s *Store) openVerified(d Digest, f *os.File, known *check) (*Blob, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open artifact: %w", err)
	}
	if known.holdsFor(info) {
		return s.newBlob(d, f, info, known), nil
	}
	if known, err = s.checkFile(d, f); err != nil {
		return nil, err
	}
	if !known.holdsFor(info) {
		// Another reader's hash was of a file that has replaced this one.
		return nil, ErrNotFound
	}
	return s.newBlob(d, f, info, known), nil
}

// touchItem makes an artifact the most recently used and returns a copy of what is known of it.
func (s *Store) touchItem(d Digest) *item {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.items[d]
	if e == nil {
		return nil
	}
	s.recent.MoveToFront(e)
	known := *e.Value.(*item)
	return &known
}

// forgetItem drops an artifact whose file somebody else removed.
func (s *Store) forgetItem(d Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Lstat(s.pathOf(d)); errors.Is(err, fs.ErrNotExist) {
		s.dropItem(d)
	}
}

// dropItem takes an artifact out of the index. mu is held.
func (s *Store) dropItem(d Digest) {
	e := s.items[d]
	if e == nil {
		return
	}
	s.bytes -= e.Value.(*item).stored
	s.recent.Remove(e)
	delete(s.items, d)
}

// checkFile hashes the file f of an artifact and remembers that it is good, or puts it in quarantine.
func (s *Store) checkFile(d Digest, f *os.File) (*check, error) {
	v, err, _ := s.checks.Do(string(d), func() (any, error) {
		info, err := f.Stat()
		if err != nil {
			return nil, fmt.Errorf("verify artifact: %w", err)
		}
		good, err := hashFile(f, info, d, s.limits)
		if err != nil {
			s.moveAside(d, f, err)
			return nil, ErrNotFound
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if e := s.items[d]; e != nil {
			it := e.Value.(*item)
			s.bytes += good.stored - it.stored
			it.stored, it.good = good.stored, good
		}
		return good, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*check), nil
}
