package audit_test

import (
	"errors"
	"testing"

	"fairlead.dev/services/console/internal/audit"
	"fairlead.dev/services/console/internal/store/audittrail"
	"fairlead.dev/services/console/internal/store/storetest"
)

// A follower of a trail that was put back to an earlier state learns of it: else it heard nothing until there are as
// many events again, and never of those.
func TestAFollowerLearnsThatTheTrailWasPutBack(t *testing.T) {
	t.Parallel()
	trail := audit.New(storetest.SQLite(t))
	silent := errors.New("a heartbeat")
	err := trail.Follow(t.Context(), audittrail.Filter{}, "1000", func([]audittrail.Event, string) error { return silent })
	if !errors.Is(err, audit.ErrGone) {
		t.Errorf("got %v", err)
	}
}
