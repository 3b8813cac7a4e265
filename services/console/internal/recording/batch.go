package recording

import (
	"context"
	"sync"

	"fairlead.dev/services/console/internal/store/recordings"
)

const (
	// groupPieces and groupBytes bound what one transaction writes: it holds up other writes.
	groupPieces, groupBytes = 64, 8 << 20
)

// batch writes the pieces that come while others are written in one transaction: each recorded session sends two a
// second, and a commit that is made durable takes far longer than a piece.
type batch struct {
	mu      sync.Mutex // guards what follows
	waiting []*appending
	led     bool // one of the callers writes, or was told to
}

// appending is one call that waits for its piece.
type appending struct {
	piece recordings.RecordingPiece
	lead  chan struct{} // the first of those that wait writes
	done  chan error
}

// append adds a piece with the ones that wait, and returns when it is durable or refused. write has an error for each
// piece, or one for all.
func (b *batch) append(ctx context.Context, piece recordings.RecordingPiece, write func(context.Context, []recordings.RecordingPiece) ([]error, error)) error {
	a := &appending{piece: piece, lead: make(chan struct{}, 1), done: make(chan error, 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, a)
	if !b.led {
		b.led = true
		a.lead <- struct{}{}
	}
	b.mu.Unlock()
	select {
	case err := <-a.done:
		return err
	case <-a.lead:
	}
	group := b.take()
	pieces := make([]recordings.RecordingPiece, len(group))
	for i, a := range group {
		pieces[i] = a.piece
	}
	refused, err := write(context.WithoutCancel(ctx), pieces) // others wait for it; the store bounds it
	b.next()
	for i, a := range group {
		if err != nil {
			a.done <- err
		} else {
			a.done <- refused[i]
		}
	}
	return <-a.done
}

// take takes the next group, its leader first.
func (b *batch) take() (group []*appending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, bytes := 0, 0
	for n < len(b.waiting) && n < groupPieces && (n == 0 || bytes+len(b.waiting[n].piece.Data) <= groupBytes) {
		bytes += len(b.waiting[n].piece.Data)
		n++
	}
	group, b.waiting = b.waiting[:n:n], b.waiting[n:]
	return group
}

// next has the first of those that still wait write.
func (b *batch) next() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.led = len(b.waiting) > 0; b.led {
		b.waiting[0].lead <- struct{}{}
	}
}
