package database

import "testing"

// The writer's cache fits the container that the console runs in.
func TestWritersCacheIsBoundedByMemory(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]int64{
		0: 128 << 20, 64 << 30: 128 << 20, 1 << 30: 1 << 30 / 12,
		32 << 20: 8 << 20,
	} {
		if got := writerCache(limit); got != want {
			t.Errorf("of %d bytes: %d, want %d", limit, got, want)
		}
	}
}
