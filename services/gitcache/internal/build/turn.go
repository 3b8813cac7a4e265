package build

import "context"

// turns are the slots of one source.
type turns struct {
	slots chan struct{}
	users int // at work or waiting; guarded by Builder.mu
}

// turn waits until another build of a source may begin. leave must be called once.
func (b *Builder) turn(ctx context.Context, source string) (leave func(), err error) {
	t := b.join(source)
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		b.part(source, t)
		return nil, context.Cause(ctx)
	}
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		<-t.slots
		b.part(source, t)
		return nil, context.Cause(ctx)
	}
	return func() {
		<-b.slots
		<-t.slots
		b.part(source, t)
	}, nil
}

func (b *Builder) join(source string) *turns {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.turns[source]
	if !ok {
		t = &turns{slots: make(chan struct{}, sourceBuilders)}
		b.turns[source] = t
	}
	t.users++
	return t
}

func (b *Builder) part(source string, t *turns) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(b.turns, source)
	}
}
