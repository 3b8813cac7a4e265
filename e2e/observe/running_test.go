package observe

import "testing"

// TestRunningProductIsObserved looks at one running product in several ways.
func TestRunningProductIsObserved(t *testing.T) { //nolint:tparallel // one after the other: later ones look at what earlier ones did
	t.Parallel()
	w := newWorld(t.Context(), t)
	ship, err := w.NewShip(t.Context(), "observed", "observed")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("every panel and rule has data", func(t *testing.T) { everyPanelAndRuleHasData(t, w, ship) })
	t.Run("a commit is one trace", func(t *testing.T) { aCommitIsOneTrace(t, w, ship) })
	t.Run("a request is one trace", func(t *testing.T) { aRequestIsOneTrace(t, w) })
	t.Run("latencies lead to traces", func(t *testing.T) { latenciesLeadToTraces(t, w) })
	t.Run("pages tell of metrics", func(t *testing.T) { pagesTellOfMetrics(t, w) })
}
