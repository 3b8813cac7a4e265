package store

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

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
		err := s.status(t.Context(), &Touched{}, nil, func(context.Context, database.Tx) (map[ReportKey]bool, error) {
			fn()
			note("status")
			return nil, nil
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
	waited := s.Databases()["catalog"].Stats().WaitCount
	wg.Go(func() {
		if err := s.Write(t.Context(), "user:ada", func(context.Context, *Tx) error {
			note("person")
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	for s.Databases()["catalog"].Stats().WaitCount == waited {
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
	entered, leave, left := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		left <- s.TransactLane(t.Context(), func(context.Context, database.Tx) error {
			close(entered)
			<-leave
			return nil
		})
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.status(ctx, &Touched{}, nil, func(context.Context, database.Tx) (map[ReportKey]bool, error) {
			t.Error("it was begun")
			return nil, nil
		})
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(leave)
	if err := <-left; err != nil {
		t.Error(err)
	}
}

// An upgrade that lowers the number of events finds many too many. The events go with the batches that come, some with
// each.
func TestTooManyEventsGoWithBatches(t *testing.T) {
	t.Parallel()
	s, err := New("sqlite:"+filepath.Join(t.TempDir(), "console.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	const many = maxEvents + 2*eventsOver
	write := s.Databases()["catalog"]
	if _, err := write.ExecContext(t.Context(), "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO events (id, time, type, cluster, service, event) SELECT 'e' || i, ?, 't', '', '', '{}' FROM n", many, database.Micros(s.Clock())); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{many - eventsOver, maxEvents, maxEvents} {
		err := s.Transact(t.Context(), func(ctx context.Context, tx database.Tx) error {
			return s.insertEvents(ctx, tx, []Event{{ID: NewEventID(), Time: s.Clock(), Type: "t", Event: []byte("{}")}})
		})
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if err := write.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM events").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > want+3 || n < want-3 {
			t.Errorf("%d events, want about %d", n, want)
		}
	}
}

// On a busy machine, or a slow disk, transactions of statuses become small, so that a person's write waits no longer
// than before.
func TestStatusesAreWrittenInPiecesOfAboutTheSameTime(t *testing.T) {
	t.Parallel()
	s := &Store{}
	const slow, quick = time.Second, time.Millisecond
	if got := s.StatusRows(); got != mostRows {
		t.Errorf("%d at first", got)
	}
	s.fitRows(3, slow) // the slowness is not for the number of rows
	if got := s.StatusRows(); got != mostRows {
		t.Errorf("%d after three rows that took long", got)
	}
	for range 10 {
		s.fitRows(s.StatusRows(), slow)
	}
	if got := s.StatusRows(); got != leastRows {
		t.Errorf("%d when all take long", got)
	}
	s.fitRows(leastRows/2, quick)
	if got := s.StatusRows(); got != leastRows {
		t.Errorf("%d after few rows", got)
	}
	for range 10 {
		s.fitRows(s.StatusRows(), quick)
	}
	if got := s.StatusRows(); got != mostRows {
		t.Errorf("%d when none takes long", got)
	}
}
