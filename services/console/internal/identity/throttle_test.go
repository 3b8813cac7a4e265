package identity

import (
	"fmt"
	"testing"
	"time"
)

func TestThrottleForgivesAndIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	th := newThrottle()
	for range failureBurst {
		if wait := th.wait("a", now); wait != 0 {
			t.Fatalf("wait %s too early", wait)
		}
		th.failed("a", now)
	}
	if wait := th.wait("a", now); wait <= 0 || wait > failureEvery {
		t.Fatalf("wait %s", wait)
	}
	if wait := th.wait("b", now); wait != 0 {
		t.Fatalf("another peer waits %s", wait)
	}
	if wait := th.wait("a", now.Add(failureEvery)); wait != 0 {
		t.Fatalf("wait %s after a pause", wait)
	}
	for i := range 2 * maxPeers {
		th.failed(fmt.Sprint("peer", i), now)
	}
	if len(th.peers) > maxPeers {
		t.Fatalf("%d peers are kept", len(th.peers))
	}
	if wait := th.wait("stranger", now); wait == 0 {
		t.Fatal("beyond the bound nobody is throttled")
	}
	later := now.Add(failureBurst * failureEvery)
	th.failed("late", later)
	if len(th.peers) != 1 {
		t.Fatalf("%d peers are not forgiven", len(th.peers)-1)
	}
}
