package intake

import (
	"fairlead.dev/services/console/internal/state"
	"testing"
	"time"
)

// The problem of one ref is told of the services that follow it, with its own beginning, and of no other service.
func TestTheProblemOfARefStandsInNoOther(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	a, b := state.RefProblem{Ref: "refs/heads/a", Message: "a is missing", Missing: true}, state.RefProblem{
		Ref:     "refs/heads/b",
		Message: "b is missing", Missing: true,
	}
	first := since(nil, &state.Problem{
		Message: "a is missing", Refs: []string{a.Ref}, Single: []state.RefProblem{a},
	}, now)
	now = now.Add(time.Hour)
	both := since(first, &state.Problem{
		Message: "a is missing; b is missing", Refs: []string{a.Ref, b.Ref},
		Single: []state.RefProblem{a, b},
	}, now)
	if got := both.Of(a.Ref); got == nil || got.Message != a.Message || !got.Since.Equal(first.Since) {
		t.Errorf("of a: %+v", got)
	}
	if got := both.Of(b.Ref); got == nil || got.Message != b.Message || !got.Since.Equal(now) {
		t.Errorf("of b: %+v", got)
	}
	if got := both.Of("HEAD"); got != nil || both.Fails() {
		t.Errorf("of another: %+v, the source fails: %v", got, both.Fails())
	}
	down := since(both, &state.Problem{Message: "no answer", Single: []state.RefProblem{a, b}}, now)
	if got := down.Of("HEAD"); got == nil || got.Message != "no answer" || !down.Fails() {
		t.Errorf("with the host away: %+v", got)
	}
	if got := down.Of(a.Ref); got == nil || !got.Since.Equal(first.Since) {
		t.Errorf("of a with the host away: %+v", got)
	}
	unsigned := &state.Problem{
		Message: "unsigned", Refs: []string{a.Ref},
		Single: []state.RefProblem{{Ref: a.Ref, Message: "unsigned"}},
	}
	if !unsigned.Fails() {
		t.Error("a ref that is refused is no problem of the source")
	}
}
