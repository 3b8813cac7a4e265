package hub_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"

	"fairlead.dev/platform/hub"
)

func TestTryGoesOnToTheNextAndStaysThere(t *testing.T) {
	t.Parallel()
	d := hub.New(http.DefaultClient, nil)
	urls := []string{"http://a", "http://b", "http://c"}
	d.Set(urls)
	var asked []string
	call := func(_ context.Context, one hub.Distributor) error {
		asked = append(asked, one.URL)
		if one.URL != "http://b" {
			return connect.NewError(connect.CodeUnavailable, errors.New("down"))
		}
		return nil
	}
	for range 2 {
		if err := d.Try(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	if last := asked[len(asked)-2:]; !slices.Equal(last, []string{"http://b", "http://b"}) {
		t.Errorf("asked %v", asked)
	}
	d.Set([]string{"http://c", "http://b"})
	if one, _ := d.Current(); one.URL != "http://b" {
		t.Errorf("a new list moved the agent to %s", one.URL)
	}
}

func TestTryTellsTheLastErrorAndAsksEachOnce(t *testing.T) {
	t.Parallel()
	refused := 0
	d := hub.New(http.DefaultClient, func() { refused++ })
	if err := d.Try(t.Context(), nil); !errors.Is(err, hub.ErrNone) {
		t.Errorf("without a distributor: %v", err)
	}
	d.Set([]string{"http://a", "http://b"})
	for code, want := range map[connect.Code]int{
		connect.CodeUnavailable: 2, connect.CodeNotFound: 2, connect.CodeUnauthenticated: 1,
		connect.CodeInvalidArgument: 1,
	} {
		count := 0
		err := d.Try(t.Context(), func(context.Context, hub.Distributor) error {
			count++
			return connect.NewError(code, errors.New("no"))
		})
		if count != want || connect.CodeOf(err) != code {
			t.Errorf("%v: asked %d times, want %d: %v", code, count, want, err)
		}
	}
	if refused != 1 {
		t.Errorf("told %d times that the token was refused", refused)
	}
}

func TestBackoffGrowsWithinItsBounds(t *testing.T) {
	t.Parallel()
	backoff := hub.Backoff{Floor: 100 * time.Millisecond, Max: time.Minute}
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

func TestBackoffHonoursWhatTheHubAskedFor(t *testing.T) {
	t.Parallel()
	for text, least := range map[string]time.Duration{
		"7": 7 * time.Second, "100000": time.Minute, "x": 0, "": 0, "-3": 0,
	} {
		refused := connect.NewError(connect.CodeUnavailable, errors.New("busy"))
		refused.Meta().Set("Retry-After", text)
		backoff := hub.Backoff{Floor: 200 * time.Millisecond, Max: time.Minute}
		if wait := backoff.After(fmt.Errorf("sync: %w", refused)); wait < least || wait > least+time.Second {
			t.Errorf("%q: %s", text, wait)
		}
	}
}

// An agent that was refused often comes back when the hub says that it has a turn, and not minutes later.
func TestWhoWasRefusedOftenStillComesWhenTheHubSays(t *testing.T) {
	t.Parallel()
	refused := connect.NewError(connect.CodeUnavailable, errors.New("busy"))
	refused.Meta().Set("Retry-After", "5")
	backoff := hub.Backoff{Floor: 200 * time.Millisecond, Max: 2 * time.Minute}
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
