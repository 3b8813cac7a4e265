package reconcile

import (
	"testing"

	"fairlead.dev/services/agent/internal/desired"
)

// A configuration takes slots away and gives them back, and never gives more than there are without one.
func TestConcurrencyIsOnlyNarrowed(t *testing.T) {
	t.Parallel()
	turns := newTurns()
	free := func() (n int) {
		for turns.slots.TryAcquire(1) {
			n++
		}
		turns.slots.Release(int64(n))
		return n
	}
	for _, step := range []struct{ most, want int }{{0, workers}, {1, 1}, {workers + 5, workers}, {2, 2}, {0, workers}} {
		if turns.narrowSlots(step.most); free() != step.want {
			t.Errorf("narrowed to %d there are %d slots, want %d", step.most, free(), step.want)
		}
	}
	give, err := turns.takeSlot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if turns.narrowSlots(1); free() != 0 { // what runs is the one that may
		t.Errorf("beside what runs there are %d slots", free())
	}
	if give(); free() != 1 {
		t.Errorf("after it there are %d slots", free())
	}
}

// A configuration takes accounts away from those that the flags let services name, and gives none.
func TestAccountsAreOnlyNarrowed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		what    string
		flags   Deps
		to      Narrower
		account string
		allowed bool
	}{
		{"flags alone", Deps{Accounts: []string{"shop/*"}}, Narrower{}, "shop/web", true},
		{"wider", Deps{Accounts: []string{"shop/*"}}, Narrower{Accounts: [][]string{{"*/*"}}}, "bank/web", false},
		{"wider than nothing", Deps{}, Narrower{Accounts: [][]string{{"*/*"}}}, "kube-system/admin", false},
		{"within what is wider", Deps{Accounts: []string{"shop/*"}}, Narrower{Accounts: [][]string{{"*/*"}}}, "shop/web", true},
		{"narrower", Deps{Accounts: []string{"shop/*"}}, Narrower{Accounts: [][]string{{"shop/db"}}}, "shop/web", false},
		{"within what is narrower", Deps{Accounts: []string{"shop/*"}}, Narrower{Accounts: [][]string{{"shop/web"}}}, "shop/web", true},
		{"not required", Deps{}, Narrower{}, "", true},
		{"required by flags alone", Deps{RequireImpersonation: true}, Narrower{}, "", false},
		{"required", Deps{}, Narrower{RequireAccount: true}, "", false},
	} {
		c := &Controller{Deps: tc.flags, turns: newTurns()}
		c.Narrow(tc.to)
		if problem := c.accountProblem(desired.Service{}, tc.account); (problem == nil) != tc.allowed {
			t.Errorf("%s: of %q: %+v", tc.what, tc.account, problem)
		}
	}
}
