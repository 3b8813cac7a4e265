package store

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// overdue is a context that ends as one whose deadline is over.
type overdue struct {
	context.Context
	done chan struct{}
}

func (o overdue) Done() <-chan struct{} { return o.done }

func (o overdue) Err() error {
	select {
	case <-o.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Writes of one transaction that all wait too long are told so, and not that somebody canceled them: callers try again.
func TestWritesOfAGroupThatTakeTooLongAreUnavailable(t *testing.T) {
	t.Parallel()
	s, err := New("sqlite:"+filepath.Join(t.TempDir(), "console.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	held, release, began := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.Write(t.Context(), "user:ada", func(context.Context, *Tx) error {
			close(held)
			<-release
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-held
	ctx := overdue{t.Context(), make(chan struct{})}
	var once sync.Once
	for range 2 {
		all.Go(func() {
			err := s.Write(ctx, "user:ada", func(ctx context.Context, _ *Tx) error {
				once.Do(func() { close(began) })
				<-ctx.Done()
				return ctx.Err()
			})
			if !errors.Is(err, ErrUnavailable) || errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
	queued := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.queue) == 2
	}
	for !queued() {
		<-time.After(time.Millisecond)
	}
	close(release)
	<-began
	close(ctx.done)
	all.Wait()
}
