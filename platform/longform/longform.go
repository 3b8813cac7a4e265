// Package longform marks the tests that only the long form runs. The short form (go test -short) needs no server of
// another project, and each module's tests take a minute at most.
package longform

import "testing"

// Only skips the test in the short form. The reason names what the test needs, or what takes its time.
func Only(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip("the long form only: " + reason)
	}
}
