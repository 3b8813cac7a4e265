package mux

import "testing"

// What a pool has back may be another stream's, or garbage: nothing that was emptied points to it.
func TestAnEmptiedBufferHoldsNoChunk(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{
		"one chunk": smallChunk, "two chunks": smallChunk + 1,
		"many": 5 * largeChunk,
	} {
		pool, b := NewShared(processBudget), &buffer{}
		for range 3 {
			b.appendBytes(pool, make([]byte, smallChunk)) // its first chunk is a small one
			b.appendBytes(pool, make([]byte, size-smallChunk))
			if got := b.readInto(pool, make([]byte, size)); got != size || b.size != 0 {
				t.Fatalf("%s: %d of %d bytes were read, %d are left", name, got, size, b.size)
			}
			if b.first[0] != nil || len(b.chunks) > 0 || pool.Held() != 0 {
				t.Errorf("%s: an empty buffer has %v, %v and holds %d bytes", name, b.first, b.chunks, pool.Held())
			}
		}
	}
}
