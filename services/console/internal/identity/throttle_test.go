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
	for i := range 2 * maxPeers { // 20,000 networks of one provider
		th.failed(fmt.Sprintf("2001:db8:%x:%x::/64", i>>8, i&255), now)
	}
	if len(th.peers) > maxPeers {
		t.Fatalf("%d peers are kept", len(th.peers))
	}
	if wait := th.wait("2001:db8:ffff:ffff::/64", now); wait == 0 {
		t.Fatal("beyond the bound nobody is throttled")
	}
	for _, other := range []string{"192.0.2.1", "2a02:908::/64", "bufconn"} {
		if wait := th.wait(other, now); wait != 0 && th.crowd(other) != th.crowd("2001:db8:1:1::/64") {
			t.Errorf("%s waits %s for what another network did", other, wait)
		}
	}
	later := now.Add(failureBurst * failureEvery)
	th.failed("late", later)
	if len(th.peers) != 1 {
		t.Fatalf("%d peers are not forgiven", len(th.peers)-1)
	}
}
