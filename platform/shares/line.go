package shares

import (
	"container/list"
	"context"
	"sync"
)

// Line gives each owner so many turns at once. An owner without a free turn waits for one, the longest wait first.
type Line struct {
	most int

	mu     sync.Mutex // guards owners
	owners map[string]*queue
}

// queue is what an owner has in a line.
type queue struct {
	held    int
	waiting list.List // of chan struct{}, closed when the turn has come
}

// NewLine makes a line of so many turns at once for each owner.
func NewLine(most int) *Line { return &Line{most: most, owners: map[string]*queue{}} }

// Take waits for a turn, which Give gives back, or returns why ctx ended.
func (l *Line) Take(ctx context.Context, owner string) error {
	l.mu.Lock()
	q := l.owners[owner]
	if q == nil {
		q = &queue{}
		l.owners[owner] = q
	}
	if q.held < l.most {
		q.held++
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	place := q.waiting.PushBack(turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-turn: // the turn came meanwhile
		l.give(owner)
	default:
		q.waiting.Remove(place)
	}
	return context.Cause(ctx)
}

// Give gives a turn back.
func (l *Line) Give(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.give(owner)
}

// give needs the mutex.
func (l *Line) give(owner string) {
	q := l.owners[owner]
	if first := q.waiting.Front(); first != nil {
		close(q.waiting.Remove(first).(chan struct{}))
		return
	}
	if q.held--; q.held == 0 {
		delete(l.owners, owner)
	}
}
