package acceptance

import (
	"testing"
	"time"

	"fairlead.dev/platform/await"
)

// A distributor that was down while a commit came serves agents from the catalog on its disk. The console, which knows
// of that commit, is told nothing of the one before: it would take a problem with the newer one for over.
func TestTheConsoleIsToldNothingOfACatalogThatIsBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ship()
	e := w.start()
	e.agent("edge-1").awaitCommit("hello", commit("1"))
	await.True(t, "the console knows of the commit", func() bool {
		return w.console.hubOf("hello").GetRevision().GetCommit() == commit("1")
	})
	e.stop()

	w.console.Put(shop("HEAD", commit("2"))) // the folder is not in it
	speak := w.console.Silence()
	w.console.mu.Lock()
	clear(w.console.hub)
	clear(w.console.refs)
	w.console.mu.Unlock()
	w.start().agent("edge-1").awaitCommit("hello", commit("1"))
	<-time.After(time.Second) // ten times as long as it takes to tell
	w.console.mu.Lock()
	if len(w.console.hub)+len(w.console.refs) > 0 {
		t.Errorf("told %v and %v", w.console.hub, w.console.refs)
	}
	w.console.mu.Unlock()
	speak()
	await.True(t, "the console hears of the problem", func() bool {
		return w.console.hubOf("hello").GetProblem() != nil
	})
}
