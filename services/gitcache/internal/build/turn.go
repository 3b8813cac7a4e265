package build

import (
	"context"
	"sync"
)

// turns bound work that goes on at once: all of it, and that of one source.
type turns struct {
	all  chan struct{} // slots
	each int           // slots of one source

	mu      sync.Mutex // guards sources
	sources map[string]*sourceTurns
}

// sourceTurns are the slots of one source.
type sourceTurns struct {
	slots chan struct{}
	users int // at work or waiting; guarded by turns.mu
}

func newTurns(all, each int) *turns {
	return &turns{all: make(chan struct{}, all), each: each, sources: map[string]*sourceTurns{}}
}

// takeTurn waits until more work of a source may begin. leave must be called once.
func (t *turns) takeTurn(ctx context.Context, source string) (leave func(), err error) {
	own := t.joinSource(source)
	select {
	case own.slots <- struct{}{}:
	case <-ctx.Done():
		t.partSource(source, own)
		return nil, context.Cause(ctx)
	}
	select {
	case t.all <- struct{}{}:
	case <-ctx.Done():
		<-own.slots
		t.partSource(source, own)
		return nil, context.Cause(ctx)
	}
	return func() {
		<-t.all
		<-own.slots
		t.partSource(source, own)
	}, nil
}

func (t *turns) joinSource(source string) *sourceTurns {
	t.mu.Lock()
	defer t.mu.Unlock()
	own, ok := t.sources[source]
	if !ok {
		own = &sourceTurns{slots: make(chan struct{}, t.each)}
		t.sources[source] = own
	}
	own.users++
	return own
}

func (t *turns) partSource(source string, own *sourceTurns) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(t.sources, source)
	}
}
