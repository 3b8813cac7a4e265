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
	for name, r := range map[string]*artifactv1.Result{
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
}
