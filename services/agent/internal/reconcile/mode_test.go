package reconcile

import (
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// A change that the API server refuses is told apart from the changes, with the words of the first one.
func TestSummaryOfADiffTellsRefusals(t *testing.T) {
	t.Parallel()
	out := summarizeDiff(&deliveryv1.Diff{Created: 1, Changed: 2, Unchanged: 1, Objects: []*deliveryv1.ObjectDiff{
		{Kind: "ConfigMap", Namespace: "shop", Name: "a", Change: deliveryv1.Change_CHANGE_UPDATE},
		{
			Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web", Change: deliveryv1.Change_CHANGE_REFUSED,
			Message: "spec.selector: field is immutable. Undo the change.",
		},
	}})
	want := "Of 4 objects 1 would be created, 1 changed and 0 removed. 1 would be refused: Deployment shop/web: spec.selector: field is immutable. Undo the change."
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}
