package reconcile

import (
	"strings"
	"testing"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
)

// A commit that leaves an empty folder as it is never gets to the agent, and the problem must not say that it did.
func TestTheProblemOfAnEmptyFolderNamesNoNewestCommit(t *testing.T) {
	t.Parallel()
	service := desired.Service{Name: "shop", Path: "deploy", Commit: "0123456789"}
	got := emptyProblem(service, deliveryv1.Renderer_RENDERER_UNSPECIFIED, inventory.Record{}).text
	if want := "deploy, unchanged since 01234567, holds no manifests"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
