package mux

// Chunks come in two sizes: most answers are small, and what a stalled stream holds in
// slack is one chunk.
const (
	smallChunk = 4 << 10
	largeChunk = 32 << 10
)

type chunk struct {
	buf        []byte
	start, end int // unread bytes are buf[start:end]
}

// buffer is a byte queue over pooled chunks. Small pieces share a chunk, so that memory follows
// the bytes and not the number of frames.
type buffer struct {
	chunks []*chunk
	first  [1]*chunk // room for chunks: most bodies fit one
	size   int
}

func (b *buffer) appendBytes(pool *Shared, p []byte) {
	b.size += len(p)
	for len(p) > 0 {
		var tail *chunk
		if n := len(b.chunks); n > 0 && b.chunks[n-1].end < len(b.chunks[n-1].buf) {
			tail = b.chunks[n-1]
		} else {
			// A second chunk in a row is a sign of bulk.
			tail = pool.newChunk(max(len(p), n*(smallChunk+1)))
			if n == 0 {
				b.chunks = b.first[:0]
			}
			if b.chunks = append(b.chunks, tail); n > 0 {
				b.first[0] = nil // chunks has moved to an array of its own
			}
		}
		n := copy(tail.buf[tail.end:], p)
		tail.end += n
		p = p[n:]
	}
}

// peekFront returns up to most bytes that lie together at the front.
func (b *buffer) peekFront(most int) []byte {
	if len(b.chunks) == 0 {
		return nil
	}
	c := b.chunks[0]
	return c.buf[c.start:min(c.end, c.start+most)]
}

// skipBytes drops n bytes, of those that peek returned.
func (b *buffer) skipBytes(pool *Shared, n int) {
	b.size -= n
	c := b.chunks[0]
	c.start += n
	if c.start == c.end {
		pool.putChunk(c)
		b.chunks[0] = nil
		b.chunks = b.chunks[1:]
		if len(b.chunks) == 0 {
			b.chunks = nil
		}
	}
}

func (b *buffer) readInto(pool *Shared, p []byte) int {
	total := 0
	for len(p) > 0 && b.size > 0 {
		n := copy(p, b.peekFront(len(p)))
		b.skipBytes(pool, n)
		p = p[n:]
		total += n
	}
	return total
}

func (b *buffer) freeChunks(pool *Shared) {
	for _, c := range b.chunks {
		pool.putChunk(c)
	}
	*b = buffer{}
}
