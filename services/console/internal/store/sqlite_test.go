package store

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// The writer's cache fits the container that the console runs in.
func TestWritersCacheIsBoundedByMemory(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]int64{0: 128 << 20, 64 << 30: 128 << 20, 1 << 30: 1 << 30 / 12, 32 << 20: 8 << 20} {
		if got := writerCache(limit); got != want {
			t.Errorf("of %d bytes: %d, want %d", limit, got, want)
		}
	}
}

// Statuses of a whole fleet wait in a line; what a person writes meanwhile comes next.
func TestAWriteWaitsForOneTransactionOfStatuses(t *testing.T) {
	t.Parallel()
	s, err := New("sqlite:"+filepath.Join(t.TempDir(), "console.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	var wg sync.WaitGroup
	begun, release := make(chan struct{}), make(chan struct{})
	status := func(fn func()) {
		err := s.status(t.Context(), Touched{}, nil, func(context.Context, *sql.Tx) error {
			fn()
			note("status")
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	wg.Go(func() {
		status(func() {
			close(begun)
			<-release
		})
	})
	<-begun
	for range 5 {
		wg.Go(func() { status(func() {}) })
	}
	waited := s.write.Stats().WaitCount
	wg.Go(func() {
		if err := s.Write(t.Context(), "user:ada", func(context.Context, *Tx) error {
			note("person")
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	for s.write.Stats().WaitCount == waited {
		runtime.Gosched()
	}
	close(release)
	wg.Wait()
	if len(order) != 7 || order[1] != "person" {
		t.Errorf("order: %q", order)
	}
}

// A caller that has gone leaves the line.
func TestAStatusThatNobodyWaitsForIsNotBegun(t *testing.T) {
	t.Parallel()
	s, err := New("sqlite:"+filepath.Join(t.TempDir(), "console.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	leave, err := s.enterLane(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.status(ctx, Touched{}, nil, func(context.Context, *sql.Tx) error {
			t.Error("it was begun")
			return nil
		})
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	leave()
}
