package configs

import (
	"context"
	"errors"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
)

// asked is a console that says what a test makes of each call.
type asked struct {
	consolev1connect.UnimplementedConfigServiceHandler
	calls chan func() error
}

func (a asked) AccessConfigs(ctx context.Context, _ *consolev1.AccessConfigsRequest) (*consolev1.AccessConfigsResponse, error) {
	select {
	case answer := <-a.calls:
		return &consolev1.AccessConfigsResponse{}, answer()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Agents that wait for a console take the turns of all others.
func TestOnlyOneWaitsForAConsoleThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	console := asked{calls: make(chan func() error)}
	c := New(console)
	get := func() error {
		_, err := c.Get(t.Context(), []Key{{Service: "s", Revision: "r"}})
		return err
	}
	away := errors.New("away")
	done := make(chan error)
	first := func(answer func() error) error {
		go func() { done <- get() }()
		console.calls <- answer
		return <-done
	}
	if err := first(func() error { return away }); !errors.Is(err, away) {
		t.Fatal(err)
	}
	err := first(func() error {
		if err := get(); !errors.Is(err, errAway) { // while this one is asked
			t.Errorf("got %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The console answers again: all callers may ask at once.
	err = first(func() error { return first(func() error { return nil }) })
	if err != nil {
		t.Fatal(err)
	}
}
