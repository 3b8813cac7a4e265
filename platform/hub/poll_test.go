package hub

import (
	"testing"
	"testing/synctest"
	"time"
)

// The change that a nudge was for may be gone for ever: the database was put back to an earlier state.
func TestANudgeThatNoAnswerIsAsNewAsIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var none *lastNudge
		if got := none.claim(); got != 0 {
			t.Errorf("claims %d without a nudge", got)
		}
		last := &lastNudge{7, time.Now()}
		<-time.After(nudgeTime)
		if got := last.claim(); got != 7 {
			t.Errorf("claims %d within the time", got)
		}
		<-time.After(time.Second)
		if got := last.claim(); got != 0 {
			t.Errorf("claims %d for ever", got)
		}
	})
}
