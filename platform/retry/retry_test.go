package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/platform/retry"
)

func TestBackoffGrowsWithinItsBounds(t *testing.T) {
	t.Parallel()
	backoff := retry.Backoff{Floor: 100 * time.Millisecond, Max: time.Minute}
	var longest time.Duration
	for range 1000 {
		wait := backoff.Next()
		if wait < 100*time.Millisecond || wait > time.Minute {
			t.Fatalf("waits %s", wait)
		}
		longest = max(longest, wait)
	}
	if longest < 45*time.Second {
		t.Errorf("never waits longer than %s", longest)
	}
	backoff.Reset()
	if wait := backoff.Next(); wait > time.Second {
		t.Errorf("waits %s after a success", wait)
	}
}

func TestBackoffHonoursRetryAfter(t *testing.T) {
	t.Parallel()
	for text, least := range map[string]time.Duration{
		"7": 7 * time.Second, "100000": time.Minute, "x": 0, "": 0, "-3": 0,
	} {
		refused := connect.NewError(connect.CodeUnavailable, errors.New("busy"))
		refused.Meta().Set("Retry-After", text)
		backoff := retry.Backoff{Floor: 200 * time.Millisecond, Max: time.Minute}
		if wait := backoff.After(fmt.Errorf("sync: %w", refused)); wait < least || wait > least+time.Second {
			t.Errorf("%q: %s", text, wait)
		}
	}
}

// An agent that was refused often comes back when the hub says that it has a turn, and not minutes later.
func TestBackoffOfManyFailuresHonoursRetryAfter(t *testing.T) {
	t.Parallel()
	refused := connect.NewError(connect.CodeUnavailable, errors.New("busy"))
	refused.Meta().Set("Retry-After", "5")
	backoff := retry.Backoff{Floor: 200 * time.Millisecond, Max: 2 * time.Minute}
	longest := time.Duration(0)
	for range 1000 {
		wait := backoff.After(refused)
		if wait < 5*time.Second {
			t.Fatalf("waits %s, less than asked for", wait)
		}
		longest = max(longest, wait)
	}
	if longest > 10*time.Second {
		t.Errorf("waits up to %s where the hub asked for 5s", longest)
	}
	if wait := backoff.After(errors.New("no connection")); wait > 2*time.Minute {
		t.Errorf("waits %s", wait)
	}
}

// Each wait takes its whole range, and nothing beyond it.
func TestWaitsAreSpreadOverTheirRange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait        func() time.Duration
		least, most time.Duration
	}{
		"spread":     {func() time.Duration { return retry.Spread(time.Minute) }, 54 * time.Second, 66 * time.Second},
		"around":     {func() time.Duration { return retry.Around(time.Minute) }, 30 * time.Second, 90 * time.Second},
		"between":    {func() time.Duration { return retry.Between(time.Second, time.Minute) }, time.Second, time.Minute},
		"none":       {func() time.Duration { return retry.Between(time.Second, 0) }, time.Second, time.Second},
		"first":      {func() time.Duration { return retry.Pause(0, time.Second, time.Minute) }, 0, time.Second},
		"third":      {func() time.Duration { return retry.Pause(2, time.Second, time.Minute) }, 0, 4 * time.Second},
		"many":       {func() time.Duration { return retry.Pause(1<<40, time.Second, time.Minute) }, 0, time.Minute},
		"short most": {func() time.Duration { return retry.Pause(0, time.Minute, time.Second) }, 0, time.Second},
	} {
		shortest, longest := c.wait(), c.wait()
		for range 1000 {
			shortest, longest = min(shortest, c.wait()), max(longest, c.wait())
		}
		if shortest < c.least || longest > c.most {
			t.Errorf("%s: from %s to %s, want %s to %s", name, shortest, longest, c.least, c.most)
		}
		if part := (c.most - c.least) / 10; shortest > c.least+part || longest < c.most-part {
			t.Errorf("%s: only from %s to %s of %s to %s", name, shortest, longest, c.least, c.most)
		}
	}
}

func TestAskedIsBounded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"7": 7 * time.Second, "61": time.Minute, "9000000000000000000": time.Minute, "x": 0, "": 0, "-3": 0,
	} {
		refused := connect.NewError(connect.CodeUnavailable, errors.New("busy"))
		refused.Meta().Set("Retry-After", text)
		if got := retry.Asked(fmt.Errorf("sync: %w", refused), time.Minute); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := retry.Asked(errors.New("no connection"), time.Minute); got != 0 {
		t.Errorf("an error of another kind asks for %s", got)
	}
}

func TestSleepEndsWithItsTimeOrItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if !retry.Sleep(ctx, 40*time.Second) || time.Since(began) != 40*time.Second {
			t.Errorf("a sleep of 40s ended after %s", time.Since(began))
		}
		if retry.Sleep(ctx, 40*time.Second) || time.Since(began) != time.Minute {
			t.Errorf("a sleep did not end with its context, but %s after the first began", time.Since(began))
		}
	})
}
