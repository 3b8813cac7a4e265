package handoff_test

import (
	"context"
	"testing"
	"time"

	"fairlead.dev/services/gitcache/internal/handoff"
	"fairlead.dev/services/gitcache/internal/owner"
)

// A try for the lease that was on its way may succeed before this replica is told that it is free: what it is told then
// is when to poll.
func TestWhoOwnsASourceAlreadyHearsWhenToPoll(t *testing.T) {
	t.Parallel()
	o := &owning{}
	r := &handoff.Receiver{Known: func(string) bool { return true }, Peers: peers{}, Owner: o}
	told := owner.Schedule{Next: time.Unix(7, 0)}
	if err := r.Take(t.Context(), handoff.Offer{UID: "a", Released: true, Keep: true, Schedule: told}); err != nil ||
		o.told != told || !o.kept {
		t.Errorf("told %v, kept: %t, %v", o.told, o.kept, err)
	}
	if err := r.Take(t.Context(), handoff.Offer{UID: "a"}); err == nil {
		t.Error("what it owns was offered to it, and it says nothing")
	}
}

type owning struct {
	handoff.Owner

	told owner.Schedule
	kept bool
}

func (*owning) Owns(string) bool { return true }

func (o *owning) Take(_ context.Context, _ string, s owner.Schedule, keep bool) error {
	o.told, o.kept = s, keep
	return nil
}

type peers struct{ handoff.Peers }

func (peers) Draining() bool { return true }
