package tunnelclient

import (
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/platform/retry"
)

// A carrier that worked where no WebSocket gets through comes first for an hour, over all sessions that end meanwhile.
func TestCarrierIsRememberedForAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var over way
		expect := func(want string) {
			t.Helper()
			if got := over.carrier(); got != want {
				t.Errorf("after %v: %s, not %s", time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), got, want)
			}
		}
		expect(CarrierWebSocket)
		over.remember(CarrierConnect)
		time.Sleep(59 * time.Minute) //nolint:forbidigo // fake time
		expect(CarrierConnect)
		time.Sleep(2 * time.Minute) //nolint:forbidigo // fake time
		expect(CarrierWebSocket)
		over.remember(CarrierConnect)
		over.remember(CarrierWebSocket)
		expect(CarrierWebSocket)
	})
}

// Pauses are anything from nothing to the whole, which doubles up to a bound.
func TestReconnectsAreSpreadOverTheWholePause(t *testing.T) {
	t.Parallel()
	for failures, most := range map[int]time.Duration{
		0: 500 * time.Millisecond, 1: time.Second, 5: 16 * time.Second, 6: 20 * time.Second, 1000: 20 * time.Second,
	} {
		var quarters [4]int
		for range 400 {
			d := retry.Pause(failures, firstPause, mostPause)
			if d < 0 || d > most {
				t.Fatalf("%v after %d failures, more than %v", d, failures, most)
			}
			quarters[min(4*d/most, 3)]++
		}
		for i, n := range quarters {
			if n < 40 {
				t.Errorf("after %d failures %d of 400 pauses are in quarter %d", failures, n, i+1)
			}
		}
	}
}
