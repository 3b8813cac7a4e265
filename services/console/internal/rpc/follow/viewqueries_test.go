package follow

import (
	"context"
	"testing"
	"time"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	clusterviews "fairlead.dev/services/console/internal/views"
)

// Answers are a second to ten seconds old, and take a hundredth of a core between these.
func TestAStreamRestsAsItsAnswersOfViewsTakeTime(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{
		0: time.Second, 5 * time.Millisecond: time.Second, 20 * time.Millisecond: 2 * time.Second,
		100 * time.Millisecond: 10 * time.Second, time.Minute: 10 * time.Second,
	} {
		if got := viewsPause(took); got != want {
			t.Errorf("after %s: got %s, want %s", took, got, want)
		}
	}
}

// A console that has just begun answers the other queries of a page, and says so with a heartbeat, while it reads the
// views.
func TestQueriesOfViewsHoldNoStreamUpWhileViewsAreRead(t *testing.T) {
	t.Parallel()
	board := clusterviews.New(clusterviews.Deps{}) // nothing reads its views
	w := &queries{lives: &lives{Deps: Deps{Views: board}}}
	asked := 0
	w.viewed = []*viewQuery{
		{name: "view", ask: func(ctx context.Context, w *queries) (*consolev1.WatchQueriesResponse, error) {
			asked++
			return nil, clusterviews.ErrBegins
		}},
	}
	pace := newViewPace(board, nil)
	defer pace.pause.Stop()
	if err := w.answerViews(t.Context(), pace); err != nil || asked > 0 || len(w.viewed) != 1 {
		t.Errorf("asked %d times, %d queries left: %v", asked, len(w.viewed), err)
	}
	pace.rested = true
	if moved, _ := pace.waits(true); moved == nil || moved != board.Loaded() {
		t.Error("the answers do not wait for the views")
	}
}
