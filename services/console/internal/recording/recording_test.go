package recording

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"fairlead.dev/services/console/internal/store"
)

// A call that finds no room while another one makes it gets that room, or ends with its context. The archive has no
// store: it removes nothing here.
func TestACallWaitsWhileAnotherMakesRoom(t *testing.T) {
	t.Parallel()
	for name, gives := range map[string]struct {
		up   bool
		want error
	}{"room is made": {false, nil}, "its caller has gone": {true, context.Canceled}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := New(Deps{})
				if err := k.beginTrim(t.Context()); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				full := true
				answer := make(chan error, 1)
				go func() {
					answer <- k.withRoom(ctx, func() error {
						if full {
							return store.ErrAllFull
						}
						return nil
					})
				}()
				synctest.Wait()
				select {
				case err := <-answer:
					t.Fatalf("it did not wait: %v", err)
				default:
				}
				if full = false; gives.up {
					cancel()
				} else {
					k.endTrim()
				}
				if err := <-answer; !errors.Is(err, gives.want) {
					t.Errorf("got %v, want %v", err, gives.want)
				}
			})
		})
	}
}
