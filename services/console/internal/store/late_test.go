package store

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"fairlead.dev/services/console/internal/store/database"
)

// The time of a write can be over between two rows that are written with no look at the context: the caller may try
// again.
func TestAWriteThatRanOutOfTimeAmongItsRowsIsUnavailable(t *testing.T) {
	t.Parallel()
	s, err := New("sqlite:"+filepath.Join(t.TempDir(), "console.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, rows := range map[string][]int{"one statement": {0}, "a prepared one": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(100*time.Millisecond))
			defer cancel()
			err := s.Transact(ctx, func(ctx context.Context, tx database.Tx) error {
				return database.Insert(ctx, tx, "INSERT INTO refs (uid, kind, name) VALUES ", rows, func(left int) []any {
					if left == 0 {
						<-ctx.Done()
						for !errors.Is(tx.Rollback(), sql.ErrTxDone) { // the transaction is rolled back beside this one
							runtime.Gosched()
						}
					}
					return []any{"uid", "kind", "name"}
				})
			})
			if !errors.Is(err, ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		})
	}
}
