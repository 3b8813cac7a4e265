package catalog

import (
	"testing"

	"fairlead.dev/platform/refusal"
)

// What can't be read in a folder is told beside a refusal that is about none of its resources.
func TestARefusalTellsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	const typo, disabled = "fleet/x.yaml:15: spec.pth: unknown field", `service account "fleet" is disabled`
	b := &bringing{content: Content{Refusal: typo}}
	if got, want := b.told(&refusal.Error{Message: disabled}), "\n"+typo+".\n"+disabled+"."; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	if got, want := b.told(&refusal.Error{Message: typo}), " "+typo+"."; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}
