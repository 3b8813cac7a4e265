// Package await has tests wait for what comes to be by others' work: it looks again and again, with pauses, and gives
// up after as long as no busy machine takes.
package await

import (
	"errors"
	"testing"
	"time"
)

const (
	patience = 5 * time.Minute
	// A pause is at least shortest and at most longest, and in between as long as the last look: looks of many tests
	// at once must not be all that a machine does.
	shortest, longest = 5 * time.Millisecond, 100 * time.Millisecond
)

// True waits until something is so, which what says in words.
func True(t testing.TB, what string, is func() bool) {
	t.Helper()
	NoError(t, what, func() error {
		if is() {
			return nil
		}
		return errNotYet
	})
}

var errNotYet = errors.New("not so")

// NoError waits until there is no error any more. what says in words what is waited for.
func NoError(t testing.TB, what string, try func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		began := time.Now()
		err := try()
		switch {
		case err == nil:
			return
		case time.Now().After(end):
			t.Fatalf("waited for %s until %s: %v", patience, what, err)
		case t.Context().Err() != nil:
			t.Fatalf("waited until %s when the test was stopped: %v", what, err)
		}
		<-time.After(min(max(shortest, time.Since(began)), longest))
	}
}
