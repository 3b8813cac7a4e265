package intake

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairlead.dev/services/console/internal/state"
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

// A problem with another commit than before is the same one: it keeps its beginning, and names the commit of now.
func TestAProblemBeginsOnceOverCommits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	const format = `folder "web" is not in commit %s of source "shop".`
	said := func(commit string) *state.Problem {
		message := fmt.Sprintf(format, commit)
		return &state.Problem{Message: message, Single: []state.RefProblem{{Ref: "HEAD", Message: message}}}
	}
	first := since(nil, said("0a1b2c3d"), now)
	next := since(first, said("ffffffff11111111ffffffff11111111ffffffff"), now.Add(time.Hour))
	if !next.Since.Equal(now) || !next.Single[0].Since.Equal(now) || !next.Names("ffffffff11111111") {
		t.Errorf("with another commit: %+v", next)
	}
	other := since(next, said("0a1b2c3d of tag v2"), now.Add(time.Hour))
	if other.Since.Equal(now) || other.Single[0].Since.Equal(now) {
		t.Errorf("another problem: %+v", other)
	}
}

// A publication is written if it says something new, once: a fetcher polls every few seconds, and all services hear of a
// change. What was known of a commit first stays, whatever a later publication says of it.
func TestAPublicationIsNewsOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		i := &Intake{now: func() time.Time { return now }}
		refs := []string{"HEAD", "refs/heads/a", "refs/heads/b", "refs/tags/v1"}
		draw := func(name string) (p Publication) {
			for _, ref := range refs {
				if !rapid.Bool().Draw(t, name+" has "+ref) {
					continue
				}
				head := state.Head{Ref: ref, SignedBy: rapid.SampledFrom([]string{"", "ada"}).Draw(t, name+" signed "+ref)}
				head.Revision.Commit = rapid.SampledFrom([]string{"c1", "c2"}).Draw(t, name+" commit of "+ref)
				head.Revision.Subject = rapid.SampledFrom([]string{"one", "two"}).Draw(t, name+" subject of "+ref)
				p.Heads = append(p.Heads, head)
			}
			if rapid.Bool().Draw(t, name+" has a problem") {
				p.Problem = &state.Problem{Message: rapid.SampledFrom([]string{"no answer", "denied"}).Draw(t, name+" problem")}
			}
			return p
		}
		first, second := draw("first"), draw("second")
		before, _ := i.merge(state.SourceStatus{}, first)
		now = now.Add(time.Hour)
		after, changed := i.merge(before, second)
		if _, again := i.merge(after, second); again {
			t.Errorf("%+v is news twice", second)
		}
		if !changed && (!reflect.DeepEqual(after.Heads, before.Heads) || !reflect.DeepEqual(after.Problem, before.Problem)) {
			t.Errorf("no news, and yet\n%+v\nis\n%+v", before, after)
		}
		known := map[string]state.Head{}
		for _, h := range before.Heads {
			known[h.Ref] = h
		}
		for n, h := range after.Heads {
			said := second.Heads[n]
			if h.Ref != said.Ref || h.Revision.Commit != said.Revision.Commit || h.SignedBy != said.SignedBy {
				t.Errorf("said %+v, kept %+v", said, h)
			}
			old, ok := known[h.Ref]
			same := ok && old.Revision.Commit == h.Revision.Commit
			if same && (h.Revision != old.Revision || !h.FetchTime.Equal(old.FetchTime)) {
				t.Errorf("%+v became %+v at the same commit", old, h)
			}
			if !same && !h.FetchTime.Equal(now) {
				t.Errorf("a new commit was fetched at %s, want %s", h.FetchTime, now)
			}
		}
		if p := after.Problem; p != nil {
			want := now
			if before.Problem != nil && before.Problem.Message == p.Message {
				want = now.Add(-time.Hour)
			}
			if !p.Since.Equal(want) {
				t.Errorf("the problem %q is since %s, want %s", p.Message, p.Since, want)
			}
		}
	})
}
