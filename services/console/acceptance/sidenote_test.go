package acceptance

import (
	"testing"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
)

// A write says what it does to services of global services: which of them stay on their own, and which get the change
// no sooner than their lever ends.
func TestAWriteSaysWhichServicesOfGlobalServicesItDoesNotReach(t *testing.T) {
	t.Parallel()
	admin := newHub(t, "").start(t).admin(t)
	g := newGlobal("logs", prod())
	g.Spec.OnLeave = consolev1.OnLeave_ON_LEAVE_DETACH
	admin.must(t, newSource("shop"), newCluster("a", "env", "prod"), newCluster("b", "env", "prod"), g)
	hold := &consolev1.HoldServiceRequest{Name: "logs-a", Reason: "a look"}
	if _, err := admin.levers.HoldService(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	note := func(r proto.Message) string {
		t.Helper()
		var notes []string
		for _, dry := range []bool{true, false} {
			got, err := admin.apply(t, &consolev1.ApplyRequest{DryRun: dry, Resources: anyOf(r)})
			if err != nil {
				t.Fatal(err)
			}
			notes = append(notes, got[0].GetNote())
		}
		if notes[0] != notes[1] {
			t.Errorf("a dry run says %q, and the write %q", notes[0], notes[1])
		}
		return notes[1]
	}
	g.Spec.Template.Path = "other"
	const waits = "2 services updated, and the change waits at 1 of them until its lever ends"
	if got := note(g); got != waits {
		t.Errorf("of a change of a held service: %q", got)
	}
	g.Metadata.Labels = map[string]string{"team": "ops"}
	if got := note(g); got != "2 services updated" {
		t.Errorf("of a label: %q", got)
	}
	const alone = "1 service detached, and changed by no global service any more"
	if got := note(newCluster("b")); got != alone {
		t.Errorf("of a cluster that leaves the choice: %q", got)
	}
	g.Spec.Template.Path = "third"
	if got := note(g); got != "1 service updated, and the change waits until its lever ends" {
		t.Errorf("of a change of a held service alone: %q", got)
	}
}
