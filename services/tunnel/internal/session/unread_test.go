package session

import "testing"

// A container ends a process that has more than its limit, with all sessions of all clusters.
func TestUnreadAnswersTakeAShareOfTheContainersMemory(t *testing.T) {
	t.Parallel()
	for memory, want := range map[int64]int64{0: 1 << 30, 512 << 20: 128 << 20, 1 << 30: 256 << 20, 64 << 30: 1 << 30} {
		if got := unread(memory); got != want {
			t.Errorf("of %d bytes: %d, want %d", memory, got, want)
		}
	}
}
