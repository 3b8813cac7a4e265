package event_test

import (
	"slices"
	"testing"

	"fairlead.dev/services/console/internal/event"
)

// A trouble that is open at a receiver is ended by some event, and an event that ends one is no trouble itself.
func TestEachTroubleHasAnEnd(t *testing.T) {
	t.Parallel()
	ended := map[string]bool{}
	for _, typ := range event.Types() {
		for _, begin := range event.Ended(typ) {
			if event.Trouble(begin) == "" || event.Trouble(typ) != "" || !slices.Contains(event.Types(), begin) {
				t.Errorf("%s ends %s", typ, begin)
			}
			ended[begin] = true
		}
	}
	for _, typ := range event.Types() {
		if event.Trouble(typ) != "" && !ended[typ] {
			t.Errorf("nothing ends %s", typ)
		}
	}
}
