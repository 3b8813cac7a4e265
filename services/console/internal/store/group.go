package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"fairlead.dev/services/console/internal/store/audittrail"
	"fairlead.dev/services/console/internal/store/database"
)

// Writers that wait at the same time share one transaction, and so one commit: making a commit durable
// takes far longer than writing a row. Each writer has a savepoint of its own, so that one that fails leaves nothing,
// and each hears of its success only when the commit is durable.
const (
	// maxGroup is how many writes share a commit at most.
	maxGroup = 64
	// groupTime is how long writes are added to a transaction that others wait for the end of.
	groupTime = 20 * time.Millisecond
)

// write is one call of Write.
type write struct {
	ctx    context.Context
	author string
	fn     func(context.Context, *Tx) error

	// The fields below belong to the goroutine that runs the write until done is closed.
	done     chan struct{}
	err      error
	panicked any
}

// Write calls fn and commits what it did, or nothing if fn returns an error. author is who the
// revisions are recorded for. fn's context is not the caller's: it may outlive that, but not Write.
func (s *Store) Write(ctx context.Context, author string, fn func(context.Context, *Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, database.MaxWrite)
	defer cancel()
	w := &write{ctx: ctx, author: author, fn: fn, done: make(chan struct{})}
	s.enqueue(w)
	select {
	case <-w.done:
	case <-ctx.Done():
		if s.withdraw(w) {
			return fmt.Errorf("begin write: %w", s.Classify(ctx.Err()))
		}
		<-w.done // the write runs, and uses what belongs to the caller
	}
	if w.panicked != nil {
		panic(w.panicked)
	}
	return w.err
}

func (s *Store) enqueue(w *write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, w)
	if !s.writing {
		s.writing = true
		s.writers.Go(s.work)
	}
}

// withdraw takes a write back that nobody has begun.
func (s *Store) withdraw(w *write) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.queue, w)
	if i < 0 {
		return false
	}
	s.queue = slices.Delete(s.queue, i, i+1)
	return true
}

// work runs all writes that wait, and ends when there are no more.
func (s *Store) work() {
	for {
		s.mu.Lock()
		group := slices.Clone(s.queue[:min(len(s.queue), maxGroup)])
		s.queue = slices.Delete(s.queue, 0, len(group))
		s.writing = len(group) > 0
		s.mu.Unlock()
		if len(group) == 0 {
			return
		}
		if rest := s.commit(group); len(rest) > 0 {
			s.mu.Lock()
			s.queue = append(rest, s.queue...)
			s.mu.Unlock()
		}
	}
}

// commit runs writes in one transaction. commit returns the writes for which there was no time.
func (s *Store) commit(group []*write) (rest []*write) {
	ctx, cancel := together(group)
	defer cancel()
	var ran int
	var tx Tx
	var events []Event
	began := s.now()
	err := s.Transact(ctx, func(ctx context.Context, over database.Tx) error {
		tx = s.txOver(over)
		if err := over.QueryRowContext(ctx, s.Dialect.LockLog).Scan(&tx.seq); err != nil {
			return fmt.Errorf("lock catalog: %w", err)
		}
		for begin := time.Now(); ran < len(group) && (ran == 0 || time.Since(begin) < groupTime); {
			ran++
			if err := tx.run(ctx, group[ran-1], len(group) > 1); err != nil {
				return err
			}
			if group[ran-1].err == nil {
				events = append(events, tx.telling...)
			}
		}
		if err := tx.finish(ctx); err != nil {
			return err
		}
		return s.insertEvents(ctx, over, events)
	})
	if ran == 0 {
		ran = len(group) // the transaction did not begin
	}
	if err == nil {
		s.NoteWrite(began)
		s.tell(&tx, events)
	}
	for _, w := range group[:ran] {
		if err != nil {
			w.err = err
		}
		close(w.done)
	}
	return group[ran:]
}

// tell says what was committed.
func (s *Store) tell(tx *Tx, events []Event) {
	if tx.changed {
		s.written.Store(tx.seq)
		s.changed()
	}
	s.tellTouched(tx.touched)
	s.tellHealthy(tx.healthy)
	s.tellEvents(events)
}

// run does one write of a transaction. An error is one of the transaction; what it returns for itself is
// kept in the write.
func (t *Tx) run(ctx context.Context, w *write, shared bool) error {
	if !shared {
		t.call(ctx, w)
		return w.err
	}
	if err := w.ctx.Err(); err != nil {
		w.err = fmt.Errorf("begin write: %w", t.store.Classify(err))
		return nil
	}
	seq, changed := t.seq, t.changed
	if _, err := t.tx.ExecContext(ctx, "SAVEPOINT write_of_group"); err != nil {
		return fmt.Errorf("begin write: %w", err)
	}
	t.call(ctx, w)
	end := "RELEASE SAVEPOINT write_of_group"
	if w.err != nil {
		w.err = t.store.Classify(w.err)
		if errors.Is(w.err, ErrUnavailable) {
			return w.err // the effects of the write may be gone with all of the transaction, or may not
		}
		t.seq, t.changed = seq, changed
		// The savepoint stays, and the next one hides it.
		end = "ROLLBACK TO SAVEPOINT write_of_group"
	}
	if _, err := t.tx.ExecContext(ctx, end); err != nil {
		return fmt.Errorf("end write: %w", err)
	}
	return nil
}

// Try calls fn as a part of the write, in another author's name. An error of fn is returned as refused, and undoes what
// fn did and nothing else; err is one of the database.
func (t *Tx) Try(ctx context.Context, author string, fn func(context.Context, *Tx) error) (refused, err error) {
	part := *t
	part.events, part.telling = nil, nil
	tx := t.tx
	tx.Author = author
	part.setRooms(tx)
	if _, err := t.tx.ExecContext(ctx, "SAVEPOINT part_of_write"); err != nil {
		return nil, fmt.Errorf("begin part of write: %w", err)
	}
	end := "RELEASE SAVEPOINT part_of_write"
	if refused = fn(ctx, &part); refused == nil {
		t.seq, t.changed, t.touched, t.healthy, t.reconfigured = part.seq, part.changed, part.touched, part.healthy, part.reconfigured
		t.events, t.telling = append(t.events, part.events...), append(t.telling, part.telling...)
	} else if refused = t.store.Classify(refused); errors.Is(refused, ErrUnavailable) {
		return nil, refused
	} else {
		end = "ROLLBACK TO SAVEPOINT part_of_write"
	}
	if _, err := t.tx.ExecContext(ctx, end); err != nil {
		return nil, fmt.Errorf("end part of write: %w", err)
	}
	return refused, nil
}

// errPanicked undoes a write that panicked; its caller sees the panic.
var errPanicked = errors.New("write panicked")

func (t *Tx) call(ctx context.Context, w *write) {
	defer func() {
		if w.panicked = recover(); w.panicked != nil {
			w.err = errPanicked
		}
	}()
	tx := t.tx
	tx.Author, tx.Now = w.author, t.store.Clock() // not before the lock: a revocation is later than what it waited for
	t.setRooms(tx)
	t.events, t.telling, t.reconfigured = nil, nil, nil
	if w.err = w.fn(ctx, t); w.err == nil {
		w.err = audittrail.Insert(ctx, t.tx, t.events)
	}
}

// together is a context that ends when all writes' contexts have. Its cause is a deadline if one of them ended by its
// deadline: the caller of that write has not canceled it.
func together(group []*write) (context.Context, context.CancelFunc) {
	if len(group) == 1 {
		return context.WithCancel(group[0].ctx)
	}
	timed, release := context.WithTimeout(context.Background(), database.MaxWrite)
	ctx, cancel := context.WithCancelCause(timed)
	var left atomic.Int64
	left.Store(int64(len(group)))
	var stops []func() bool
	for _, w := range group {
		stops = append(stops, context.AfterFunc(w.ctx, func() {
			if left.Add(-1) == 0 {
				cancel(lateness(group))
			}
		}))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
		release()
	}
}

// lateness is why the contexts of writes have ended.
func lateness(group []*write) error {
	for _, w := range group {
		if errors.Is(w.ctx.Err(), context.DeadlineExceeded) {
			return context.DeadlineExceeded
		}
	}
	return context.Canceled
}
