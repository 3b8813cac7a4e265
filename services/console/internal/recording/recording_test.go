package recording

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/platform/identity"
	"fairlead.dev/services/console/internal/authz"
	"fairlead.dev/services/console/internal/store/recordings"
	"fairlead.dev/services/console/internal/store/storetest"
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
							return recordings.ErrAllFull
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

// Rights to view each of thousands of recordings are judged by rules that are asked for once.
func TestAListAsksForTheRulesOnce(t *testing.T) {
	t.Parallel()
	s := storetest.SQLite(t)
	asked := 0
	rules := authz.New(s, func() time.Time { asked++; return time.Now() })
	k := New(Deps{Store: s, Rights: rules, Days: 1, Bytes: MaxBytes})
	for _, id := range []string{"a", "b", "c"} {
		if err := k.Begin(t.Context(), recordings.Recording{ID: id, Cluster: "edge-1", Subject: "user:bob"}); err != nil {
			t.Fatal(err)
		}
	}
	for want, who := range map[int]identity.Identity{
		0: {Kind: identity.KindUser, Name: "bob"},
		3: {Kind: identity.KindUser, Name: "ada", Groups: []string{identity.AdminsGroup}},
	} {
		asked = 0
		list, _, err := k.List(t.Context(), who, "", "", 0, "")
		if err != nil || len(list) != want || asked != 1 {
			t.Errorf("%s sees %d recordings, want %d; the rules were asked for %d times: %v",
				who.Name, len(list), want, asked, err)
		}
	}
}
