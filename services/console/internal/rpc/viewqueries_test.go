package rpc

import (
	"testing"
	"time"
)

// Answers are a second to ten seconds old, and take a hundredth of a core between these.
func TestAStreamRestsAsItsAnswersOfViewsTakeTime(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{
		0: time.Second, 5 * time.Millisecond: time.Second, 20 * time.Millisecond: 2 * time.Second,
		100 * time.Millisecond: 10 * time.Second, time.Minute: 10 * time.Second,
	} {
		if got := viewsPause(took); got != want {
			t.Errorf("after %s: got %s, want %s", took, got, want)
		}
	}
}
