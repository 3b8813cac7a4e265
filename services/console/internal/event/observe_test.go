package event

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/catalog"
	"fairlead.dev/services/console/internal/state"
	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/storetest"
)

// brief are events as type and count.
func brief(t *testing.T, list []store.Event) (out []string) {
	t.Helper()
	for _, e := range told(t, list) {
		out = append(out, fmt.Sprint(e.GetType(), " ", e.GetCount()))
	}
	return out
}

// Five refs of a source that move at once, or that can't be published any more, are an event each; six are one with
// their number. What was so before is none.
func TestManyRefsOfASourceAreOneEvent(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	r := &Recorder{Now: func() time.Time { return now }}
	moved := func(n int) (s state.SourceStatus) {
		for i := range 20 {
			commit := "0123456789abcdef"
			if i < n {
				commit = "fedcba9876543210"
			}
			s.Heads = append(s.Heads, state.Head{
				Ref:      fmt.Sprint("refs/heads/b", i),
				Revision: state.Revision{Commit: commit},
			})
		}
		return s
	}
	refused := func(n int) (s state.SourceStatus) {
		s.Problem = &state.Problem{Message: "no signature", Since: now}
		for i := range n {
			ref := fmt.Sprint("refs/heads/b", i)
			s.Problem.Refs = append(s.Problem.Refs, ref)
			s.Problem.Single = append(s.Problem.Single,
				state.RefProblem{Ref: ref, Message: ref + " has no signature", Since: now})
		}
		return s
	}
	for name, tc := range map[string]struct {
		before, after state.SourceStatus
		want          []string
	}{
		"five that move":            {moved(0), moved(5), slices.Repeat([]string{"source.fetched 0"}, 5)},
		"six that move":             {moved(0), moved(6), []string{"source.fetched 6"}},
		"one more that moves":       {moved(6), moved(7), []string{"source.fetched 0"}},
		"five that are refused":     {refused(1), refused(6), slices.Repeat([]string{"source.refused 1"}, 5)},
		"six that are refused":      {refused(1), refused(7), []string{"source.refused 6"}},
		"none that is refused anew": {refused(7), refused(7), nil},
	} {
		if got := brief(t, r.SourceSaid(state.Meta{Name: "shop"}, tc.before, tc.after)); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// Of a source that is fetched again the event says for how long it was not.
func TestARecoveredSourceSaysForHowLongItFailed(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	r := &Recorder{Now: func() time.Time { return now }}
	failing := state.SourceStatus{Problem: &state.Problem{Message: "401.", Since: now.Add(-7 * time.Minute)}}
	list := told(t, r.SourceSaid(state.Meta{Name: "shop"}, failing, state.SourceStatus{}))
	if len(list) != 1 || list[0].GetType() != SourceRecovered || list[0].GetDuration().AsDuration() != 7*time.Minute {
		t.Errorf("got %v", list)
	}
}

// Of a service that is deleted the event says what becomes of its objects.
func TestADeletedServiceSaysWhatBecomesOfItsObjects(t *testing.T) {
	t.Parallel()
	s := storetest.SQLite(t)
	r := &Recorder{Store: s, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	const goes, stay = "its objects go from the cluster.", "its objects stay in the cluster, without its mark."
	for name, spec := range map[string]struct{ json, want string }{
		"unsaid":  {`{"cluster":"edge-1"}`, goes},
		"removes": {`{"sync":{"onDelete":"DELETE_POLICY_REMOVE"}}`, goes},
		"keeps":   {`{"sync":{"onDelete":"DELETE_POLICY_ORPHAN"}}`, stay},
	} {
		err := s.Write(t.Context(), "ada", func(ctx context.Context, tx *store.Tx) error {
			before := &store.Resource{Kind: store.KindService, Name: name, Spec: []byte(spec.json)}
			return r.Wrote(ctx, &catalog.Write{Tx: tx}, before, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Read(t.Context(), func(ctx context.Context, v store.View) error {
			rows, _, err := v.EventsAfter(ctx, store.EventQuery{}, 0, 100)
			list := told(t, rows)
			if len(list) == 0 {
				t.Fatalf("%s: no event", name)
			}
			if e := list[len(list)-1]; e.GetService() != name || e.GetMessage() != "It was deleted; "+spec.want {
				t.Errorf("%s: %q of %q, want %q", name, e.GetMessage(), e.GetService(), spec.want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A removal that a guard held up may end by a revert. Then nobody confirms it, and the alert ends all the same, but not
// before: a hold, an attempt or a wait says nothing of it.
func TestAGuardThatHoldsNothingUpAnyMoreIsReleased(t *testing.T) {
	t.Parallel()
	r := &Recorder{Now: time.Now}
	guarded := func(id, digest string) state.Report {
		return state.Report{Digest: digest, Phase: state.PhaseWaiting, Guard: &state.Guard{ID: id, Removing: 9, ObjectsTotal: 10}}
	}
	is := func(phase state.Phase, digest string) state.Report { return state.Report{Digest: digest, Phase: phase} }
	for name, tc := range map[string]struct {
		before, after state.Report
		want          []string
	}{
		"it trips":                        {is(state.PhaseHealthy, "d1"), guarded("a", "d2"), []string{GuardTripped}},
		"other content trips it":          {guarded("a", "d2"), guarded("b", "d3"), []string{GuardTripped}},
		"a revert":                        {guarded("a", "d2"), is(state.PhaseHealthy, "d1"), []string{ServiceHealthy, GuardReleased}},
		"a revert that fails":             {guarded("a", "d2"), is(state.PhaseFailed, "d1"), []string{ServiceFailed}},
		"a revert on its way":             {guarded("a", "d2"), is(state.PhaseApplying, "d1"), nil},
		"a hold":                          {guarded("a", "d2"), is(state.PhaseHeld, "d3"), []string{ServiceHeld}},
		"another attempt":                 {guarded("a", "d2"), is(state.PhaseApplying, "d2"), nil},
		"the same content removes little": {guarded("a", "d2"), is(state.PhaseDegraded, "d2"), []string{ServiceDegraded, GuardReleased}},
		"nothing waited":                  {is(state.PhaseWaiting, "d2"), is(state.PhaseHealthy, "d3"), []string{ServiceHealthy}},
	} {
		var got []string
		for _, e := range r.Gather(r.ClusterSaid(state.Service{Meta: state.Meta{Name: "web"}}, &tc.before, tc.after)) {
			got = append(got, e.Type)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: told %q, want %q", name, got, tc.want)
		}
	}
	if !slices.Contains(Ended(GuardReleased), GuardTripped) {
		t.Error("the alert stays open")
	}
}
