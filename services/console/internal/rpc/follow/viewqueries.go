package follow

import (
	"bytes"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	consolev1 "fairlead.dev/gen/fairlead/console/v1"
	"fairlead.dev/services/console/internal/index"
	clusterviews "fairlead.dev/services/console/internal/views"
)

const (
	// viewsEvery is how often a stream answers its queries of views while there are changes.
	viewsEvery = time.Second
	// viewsShare has a stream rest so many times as long as its answers of views took: the sums over 10,000 clusters
	// take some 20 ms, and a stream is to take a hundredth of a core at most, and its answers are ten seconds old at
	// most.
	viewsShare = 100
)

// viewQuery is a query of a stream that the board of views answers.
type viewQuery struct {
	name string
	ask  func(ctx context.Context, w *queries) (*consolev1.WatchQueriesResponse, error)
	sent []byte // the answer that the caller has; nil: none yet
}

// viewQueryOf returns nil for a query that is not of views.
func viewQueryOf(q *consolev1.Query) *viewQuery {
	switch of := q.GetQuery().(type) {
	case *consolev1.Query_View:
		return &viewQuery{name: q.GetName(), ask: func(ctx context.Context, w *queries) (*consolev1.WatchQueriesResponse, error) {
			view, err := w.lives.Views.Get(ctx, of.View.GetCluster())
			return &consolev1.WatchQueriesResponse{Event: &consolev1.WatchQueriesResponse_View{View: &consolev1.GetClusterViewResponse{View: view}}}, err
		}}
	case *consolev1.Query_Views:
		return &viewQuery{name: q.GetName(), ask: func(ctx context.Context, w *queries) (*consolev1.WatchQueriesResponse, error) {
			list, err := w.lives.Views.List(ctx, of.Views)
			return &consolev1.WatchQueriesResponse{Event: &consolev1.WatchQueriesResponse_Views{Views: list}}, err
		}}
	}
	return nil
}

// viewPace says when a stream answers its queries of views again.
type viewPace struct {
	views    *clusterviews.Board
	clusters *index.Index
	pause    *time.Timer
	rested   bool
	// Closed when answers may have become others since the last ones.
	viewMoved, clusterMoved <-chan struct{}
}

func newViewPace(views *clusterviews.Board, clusters *index.Index) *viewPace {
	return &viewPace{views: views, clusters: clusters, pause: time.NewTimer(viewsEvery)}
}

// waits returns what the next answers wait for: nothing during a pause.
func (p *viewPace) waits(asked bool) (viewMoved, clusterMoved <-chan struct{}) {
	if !asked || !p.rested {
		return nil, nil
	}
	if p.viewMoved == nil {
		return p.views.Loaded(), nil // nothing was answered yet
	}
	return p.viewMoved, p.clusterMoved
}

// answerViews sends the answers of views that are not the ones of before.
func (w *queries) answerViews(ctx context.Context, pace *viewPace) error {
	if len(w.viewed) == 0 {
		return nil
	}
	select {
	case <-pace.views.Loaded():
	default:
		return nil // the board would have the whole stream wait, and its heartbeats with it
	}
	pace.viewMoved, pace.clusterMoved = pace.views.Moved(), pace.clusters.Moved()
	var took time.Duration
	for i := 0; i < len(w.viewed); i++ {
		q := w.viewed[i]
		began := time.Now()
		answer, err := w.answerView(ctx, q)
		took += time.Since(began) // and not of sending: a slow reader costs nothing here
		if err == nil {
			if answer != nil {
				err = w.send(ctx, q.name, answer)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := w.refuse(ctx, q.name, err); err != nil {
			return err
		}
		w.viewed = slices.Delete(w.viewed, i, i+1)
		i--
	}
	pace.pause.Reset(viewsPause(took))
	pace.rested = false
	return nil
}

// viewsPause is how long a stream rests whose answers of views took a time.
func viewsPause(took time.Duration) time.Duration {
	return min(max(viewsEvery, viewsShare*took), queriesBeat)
}

// answerView returns an answer to send; nil: it is the one from before.
func (w *queries) answerView(ctx context.Context, q *viewQuery) (*consolev1.WatchQueriesResponse, error) {
	answer, err := q.ask(ctx, w)
	if err != nil {
		return nil, err
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(answer)
	if err != nil || bytes.Equal(text, q.sent) {
		return nil, err
	}
	q.sent = text
	return answer, nil
}
