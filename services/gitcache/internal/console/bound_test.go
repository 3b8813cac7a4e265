package console

import (
	"fmt"
	"testing"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// TestRefsBeyondTheLimitTakeNoneFromOthers: a publication of more heads than the console takes would be refused as a
// whole.
func TestRefsBeyondTheLimitTakeNoneFromOthers(t *testing.T) {
	t.Parallel()
	refs := map[string]int{}
	for i := range 10 {
		refs[fmt.Sprint("refs/heads/", i)] = 1
	}
	published := []*consolev1.Head{{Ref: "refs/heads/8"}, {Ref: "refs/heads/9"}}
	if left := boundRefs(refs, published, 10); left != 0 || len(refs) != 10 {
		t.Errorf("%d are left out, of as many as fit", left)
	}
	left := boundRefs(refs, published, 3)
	if left != 7 || len(refs) != 3 || refs["refs/heads/0"]+refs["refs/heads/8"]+refs["refs/heads/9"] != 3 {
		t.Errorf("%d are left out, followed are %v", left, refs)
	}
}
