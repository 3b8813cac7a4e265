package mux

import (
	"sync"
	"sync/atomic"
)

// processBudget is the bound of sessions that were not made with a Shared of their own: an agent's.
const processBudget = 256 << 20

// Shared is what the sessions of a replica have in common: their buffers, which idle sessions give back, and
// the bound on what all of them hold of streams that nobody reads.
type Shared struct {
	small, large sync.Pool
	batches      sync.Pool // *[]byte
	notes        sync.Pool // *[]byte, short ones
	most         int64
	held         atomic.Int64 // bytes of chunks in use
}

// NewShared bounds what its sessions hold together, in bytes. Near the bound windows don't grow; beyond it no
// stream begins, and streams that hold more than a chunk are reset.
func NewShared(most int64) *Shared { return &Shared{most: most} }

// Held is how many bytes of buffers are in use.
func (s *Shared) Held() int64 { return s.held.Load() }

func (s *Shared) isFull() bool     { return s.held.Load() >= s.most }
func (s *Shared) isHalfFull() bool { return s.held.Load() >= s.most/2 }

// newChunk returns an empty chunk for about so many bytes.
func (s *Shared) newChunk(hint int) *chunk {
	pool, size := &s.small, smallChunk
	if hint > smallChunk {
		pool, size = &s.large, largeChunk
	}
	s.held.Add(int64(size))
	if c, ok := pool.Get().(*chunk); ok {
		return c
	}
	return &chunk{buf: make([]byte, size)}
}

func (s *Shared) putChunk(c *chunk) {
	s.held.Add(-int64(len(c.buf)))
	c.start, c.end = 0, 0
	if len(c.buf) == smallChunk {
		s.small.Put(c)
		return
	}
	s.large.Put(c)
}

// newBatch returns an empty batch: a short one for control frames alone, which is what thousands of idle sessions
// may send at the same time.
func (s *Shared) newBatch(short bool) *[]byte {
	pool, size := &s.batches, batchTarget+2*quantum
	if short {
		pool, size = &s.notes, noteSize
	}
	if b, ok := pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, size)
	return &b
}

func (s *Shared) putBatch(b *[]byte) {
	*b = (*b)[:0]
	switch n := cap(*b); {
	case n <= smallChunk:
		s.notes.Put(b)
	case n <= 2*batchMost:
		s.batches.Put(b)
	}
}
