package artifact

import (
	"bytes"
	"container/list"
	"sync"
	"time"
)

// retryTime is how long an artifact that the disk did not take is left in memory before the disk is
// tried again. The next attempt comes when somebody wants the artifact.
const retryTime = time.Minute

// spare holds in memory what the disk did not take, so that it is not made again for everybody who
// wants it. The least recently used go first.
type spare struct {
	maxBytes int64

	mu     sync.Mutex // guards what follows
	items  map[Digest]*list.Element
	recent *list.List // of *held, most recently used first
	bytes  int64
}

// held is an artifact in memory.
type held struct {
	digest Digest
	good   check
	zstd   []byte
	tried  time.Time // to store it
}

func newSpare(maxBytes int64) *spare {
	return &spare{maxBytes: maxBytes, items: map[Digest]*list.Element{}, recent: list.New()}
}

func (s *spare) keepCopy(d Digest, good check, zstd []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items[d] != nil || int64(len(zstd)) > s.maxBytes {
		return
	}
	s.items[d] = s.recent.PushFront(&held{digest: d, good: good, zstd: zstd, tried: time.Now()})
	s.bytes += int64(len(zstd))
	for s.bytes > s.maxBytes {
		s.removeElement(s.recent.Back())
	}
}

// removeElement drops one. mu is held.
func (s *spare) removeElement(e *list.Element) {
	h := s.recent.Remove(e).(*held)
	delete(s.items, h.digest)
	s.bytes -= int64(len(h.zstd))
}

func (s *spare) dropCopy(d Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.items[d]; e != nil {
		s.removeElement(e)
	}
}

func (s *spare) hasCopy(d Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[d] != nil
}

// useCopy returns a copy of what is held, and whether the disk is to be tried again now.
func (s *spare) useCopy(d Digest) (h held, retry, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.items[d]
	if e == nil {
		return held{}, false, false
	}
	s.recent.MoveToFront(e)
	known := e.Value.(*held)
	if retry = time.Since(known.tried) > retryTime; retry {
		known.tried = time.Now()
	}
	return *known, retry, true
}

// openSpare opens an artifact that is in memory.
func (s *Store) openSpare(d Digest) (*Blob, error) {
	h, retry, ok := s.spare.useCopy(d)
	if !ok {
		return nil, ErrNotFound
	}
	if retry {
		s.retryStore(h)
	}
	return &Blob{digest: d, store: s, stored: bytes.NewReader(h.zstd), good: h.good}, nil
}

// retryStore stores what is in memory, if the disk takes it by now.
func (s *Store) retryStore(h held) {
	p := s.newSpool()
	_, err := p.Write(h.zstd) // into memory
	if err == nil {
		err = p.saveAs(h.digest, h.good.size)
	}
	if err != nil {
		_ = p.discardFile() // the next start sweeps what is left of the file
		return
	}
	s.spare.dropCopy(h.digest)
}
