package recording

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"fairlead.dev/services/console/internal/store"
	"fairlead.dev/services/console/internal/store/recordings"
)

// Pieces that come while others are written share one transaction, and each hears of its own refusal.
func TestPiecesThatWaitAreWrittenTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b batch
		var writes, refused atomic.Int64
		first := make(chan struct{})
		write := func(_ context.Context, pieces []recordings.RecordingPiece) ([]error, error) { //nolint:unparam // as batch calls it
			if writes.Add(1) == 1 {
				<-first
			}
			out := make([]error, len(pieces))
			for i, p := range pieces {
				if p.Sequence%10 == 0 {
					out[i] = recordings.ErrFull
				}
			}
			return out, nil
		}
		const pieces = 100
		var wg sync.WaitGroup
		for i := range pieces {
			wg.Go(func() {
				if err := b.append(t.Context(), recordings.RecordingPiece{Piece: recordings.Piece{Sequence: int64(i)}},
					write); errors.Is(err, recordings.ErrFull) {
					refused.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // all but the first one wait for it
		close(first)
		wg.Wait()
		// The first group has one piece, and up to groupPieces if more came before it was taken. The rest are two
		// groups, or one.
		if n := writes.Load(); n != 2 && n != 3 {
			t.Errorf("%d transactions for %d pieces", n, pieces)
		}
		if n := refused.Load(); n != pieces/10 {
			t.Errorf("%d pieces were refused", n)
		}
	})
}

// A transaction that fails is the failure of all of its pieces, and of no later ones.
func TestATransactionThatFailsFailsItsPiecesOnly(t *testing.T) {
	t.Parallel()
	var b batch
	for _, want := range []error{store.ErrUnavailable, nil} {
		got := b.append(t.Context(), recordings.RecordingPiece{},
			func(context.Context, []recordings.RecordingPiece) ([]error, error) { return make([]error, 1), want })
		if !errors.Is(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
