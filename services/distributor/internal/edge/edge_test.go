package edge

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	"fairlead.dev/platform/coordination"
	"fairlead.dev/services/distributor/internal/plan"
)

// The answers of a gitcache are checked: a name is no digest, and another commit is no answer.
func TestAnswersAreNotTrusted(t *testing.T) {
	t.Parallel()
	w := plan.Want{Source: "shop", SourceUID: "uid-shop", Commit: "1111111"}
	epoch := int64(5)
	e := New(Config{Published: func(string) (string, int64) { return "gitcache-1", epoch }})
	answer := e.answer
	resolved := func(digest, commit string) *artifactv1.Result {
		return &artifactv1.Result{SourceUid: "uid-shop", Epoch: 5, Result: &artifactv1.Result_Resolved{Resolved: &artifactv1.Resolved{
			Revision: &artifactv1.Revision{Commit: commit}, Artifact: &artifactv1.Artifact{Digest: digest},
		}}}
	}
	good := "sha256:" + strings.Repeat("0a", 32)
	if a := answer(w, resolved(good, "1111111")); a.Failure != nil || string(a.Artifact.Digest) != good {
		t.Errorf("got %+v", a)
	}
	withSubmodules := resolved(good, "1111111")
	withSubmodules.Submodules = true
	refusedWith := &artifactv1.Result{
		Submodules: true, SourceUid: "uid-shop", Epoch: 6,
		Result: &artifactv1.Result_Error{Error: &artifactv1.ResolveError{Reason: artifactv1.ResolveError_REASON_REFUSED}},
	}
	changed := func(change func(*artifactv1.Result)) *artifactv1.Result {
		r := resolved(good, "1111111")
		change(r)
		return r
	}
	for name, r := range map[string]*artifactv1.Result{
		// The answer would stay until the next commit, and is about another content.
		"with submodules": withSubmodules, "refused with submodules": refusedWith,
		"no digest":      resolved("", "1111111"),
		"path":           resolved("sha256:../../../etc/passwd", "1111111"),
		"another commit": resolved(good, "2222222"),
		"nothing":        {},
		"another source": changed(func(r *artifactv1.Result) { r.SourceUid = "uid-before" }),
		"no source":      changed(func(r *artifactv1.Result) { r.SourceUid = "" }),
		"an old owner":   changed(func(r *artifactv1.Result) { r.Epoch = 4 }),
		"a foreign no": {SourceUid: "uid-before", Epoch: 9, Result: &artifactv1.Result_Error{
			Error: &artifactv1.ResolveError{Reason: artifactv1.ResolveError_REASON_PATH_NOT_FOUND},
		}},
		"with dependencies": changed(func(r *artifactv1.Result) { r.Dependencies = true }),
		"nil":               nil,
	} {
		if a := answer(w, r); a.Failure == nil || a.Failure.Kind != plan.Unavailable {
			t.Errorf("%s: got %+v", name, a)
		}
	}
	if a := answer(w, changed(func(r *artifactv1.Result) { r.Epoch = 6 })); a.Failure != nil {
		t.Errorf("an owner that has not published yet: %+v", a)
	}
	old := New(Config{Published: e.cfg.Published, Unsigned: true})
	bare := changed(func(r *artifactv1.Result) { r.SourceUid, r.Epoch = "", 0 })
	if a := old.answer(w, bare); a.Failure != nil {
		t.Errorf("an old gitcache during an upgrade: %+v", a)
	}
	if a := old.answer(w, changed(func(r *artifactv1.Result) { r.SourceUid = "uid-before" })); a.Failure == nil {
		t.Error("another source during an upgrade")
	}
	withDependencies := w
	withDependencies.Dependencies = true
	if a := answer(withDependencies, changed(func(r *artifactv1.Result) { r.Dependencies = true })); a.Failure != nil {
		t.Errorf("got %+v", a)
	}
	w.Submodules = true
	if a := answer(w, withSubmodules); a.Failure != nil {
		t.Errorf("got %+v", a)
	}
	if a := answer(w, refusedWith); a.Failure == nil || a.Failure.Kind != plan.Refused {
		t.Errorf("got %+v", a)
	}
}

// told is a coordination that says what a test says.
type told struct {
	members []coordination.Member
	err     error
}

func (t *told) Members(context.Context, string) ([]coordination.Member, error) {
	return t.members, t.err
}
func (t *told) Holder(context.Context, string) (string, error) { return "", t.err }

// A Redis that is away says nothing, and one that came back may have been emptied: until gitcaches have joined again,
// those known before are asked.
func TestGitcachesKnownBeforeAreAskedUntilOthersAreKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := &told{}
		e := New(Config{Coordination: redis, Log: slog.New(slog.DiscardHandler)})
		member := func(id string) coordination.Member { return coordination.Member{ID: id, URL: "https://" + id} }
		for _, step := range []struct {
			what string
			said told
			want []string
		}{
			{"none has joined yet", told{}, nil},
			{"two have joined", told{members: []coordination.Member{member("a"), member("b")}}, []string{"https://a", "https://b"}},
			{"Redis is away", told{err: errors.New("away")}, []string{"https://a", "https://b"}},
			{"Redis is back and empty", told{}, []string{"https://a", "https://b"}},
			{"one has joined again", told{members: []coordination.Member{member("b")}}, []string{"https://b"}},
		} {
			*redis = step.said
			var got []string
			for _, o := range e.origins(t.Context(), "", "") {
				got = append(got, o.url)
			}
			if !slices.Equal(got, step.want) {
				t.Errorf("%s: %q", step.what, got)
			}
			<-time.After(membersTTL)
		}
	})
}
