package edge

import (
	"strings"
	"testing"

	artifactv1 "fairlead.dev/gen/fairlead/artifact/v1"
	"fairlead.dev/services/distributor/internal/plan"
)

// What a gitcache answers is checked: a name is no digest, and another commit is no answer.
func TestAnswersAreNotTrusted(t *testing.T) {
	t.Parallel()
	w := plan.Want{Source: "shop", Commit: "1111111"}
	resolved := func(digest, commit string) *artifactv1.Result {
		return &artifactv1.Result{Result: &artifactv1.Result_Resolved{Resolved: &artifactv1.Resolved{
			Revision: &artifactv1.Revision{Commit: commit}, Artifact: &artifactv1.Artifact{Digest: digest},
		}}}
	}
	good := "sha256:" + strings.Repeat("0a", 32)
	if a := answer(w, resolved(good, "1111111")); a.Failure != nil || string(a.Artifact.Digest) != good {
		t.Errorf("got %+v", a)
	}
	withSubmodules := resolved(good, "1111111")
	withSubmodules.Submodules = true
	refusedWith := &artifactv1.Result{Submodules: true, Result: &artifactv1.Result_Error{Error: &artifactv1.ResolveError{Reason: artifactv1.ResolveError_REASON_REFUSED}}}
	for name, r := range map[string]*artifactv1.Result{
		// It would stay until the next commit, and is about another content.
		"with submodules": withSubmodules, "refused with submodules": refusedWith,
		"no digest":      resolved("", "1111111"),
		"path":           resolved("sha256:../../../etc/passwd", "1111111"),
		"another commit": resolved(good, "2222222"),
		"nothing":        {},
		"nil":            nil,
	} {
		if a := answer(w, r); a.Failure == nil || a.Failure.Kind != plan.Unavailable {
			t.Errorf("%s: got %+v", name, a)
		}
	}
	w.Submodules = true
	if a := answer(w, withSubmodules); a.Failure != nil {
		t.Errorf("got %+v", a)
	}
	if a := answer(w, refusedWith); a.Failure == nil || a.Failure.Kind != plan.Refused {
		t.Errorf("got %+v", a)
	}
}
