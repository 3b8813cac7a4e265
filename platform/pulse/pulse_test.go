package pulse

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSinceIsTheBeginningOfTheState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		var answer error
		p := New(func(context.Context) error {
			time.Sleep(time.Millisecond) //nolint:forbidigo // the clock of synctest
			return answer
		})
		if p.Last() != (Beat{}) {
			t.Error("it was asked before it runs")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		begin := time.Now()
		go func() { done <- p.Run(ctx) }()
		<-time.After(3*every + time.Second)
		if got := p.Last(); got.Problem != nil || !got.Since.Equal(begin) || got.Asked.Sub(begin) != 3*every ||
			got.Took != time.Millisecond {
			t.Errorf("got %+v", got)
		}
		answer = away
		<-time.After(2 * every)
		if got := p.Last(); !errors.Is(got.Problem, away) || got.Since.Sub(begin) != 4*every ||
			got.Asked.Sub(begin) != 5*every {
			t.Errorf("got %+v", got)
		}
		answer = nil
		<-time.After(every)
		if got := p.Last(); got.Problem != nil || got.Since.Sub(begin) != 6*every {
			t.Errorf("got %+v", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// What hangs is no answer, and the end of Run is none of its faults.
func TestAQuestionIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		<-time.After(time.Second)
		if !p.Last().Asked.IsZero() {
			t.Error("it has answered")
		}
		<-time.After(patience)
		if !errors.Is(p.Last().Problem, context.DeadlineExceeded) {
			t.Errorf("got %+v", p.Last())
		}
		<-time.After(every - patience) // it is asked again
		before := p.Last()
		cancel()
		if err := <-done; err != nil || p.Last() != before {
			t.Errorf("%v, %+v", err, p.Last())
		}
	})
}
