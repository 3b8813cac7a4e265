package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"fairlead.dev/services/console/internal/store"
)

var errOwn = errors.New("a failure of its own")

// Writes that wait at the same time are one commit, and still each is all or nothing by itself.
func testWaitingWriters(t *testing.T, open Open) {
	s := open(store.Options{})
	running, release := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		write(t, s, func(context.Context, *store.Tx) error {
			close(running)
			<-release
			return nil
		})
	})
	<-running
	const writers = 40
	contexts := map[bool]context.Context{false: t.Context()}
	canceled, cancel := context.WithCancel(t.Context())
	contexts[true] = canceled
	var queued sync.WaitGroup
	for i := range writers {
		queued.Add(1)
		all.Go(func() {
			defer func() {
				if p := recover(); (p != nil) != (i%10 == 2) {
					t.Errorf("writer %d: panic %v", i, p)
				}
			}()
			queued.Done()
			err := s.Write(contexts[i%10 == 3], "user:ada", func(ctx context.Context, tx *store.Tx) error {
				if _, err := tx.Create(ctx, draft(store.KindCluster, fmt.Sprintf("c%d", i), `{}`)); err != nil {
					return err
				}
				switch i % 10 {
				case 1:
					return errOwn
				case 2:
					panic("of its own")
				}
				return nil
			})
			switch i % 10 {
			case 1:
				if !errors.Is(err, errOwn) {
					t.Errorf("writer %d: %v", i, err)
				}
			case 3:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("writer %d: %v", i, err)
				}
			default:
				if err != nil {
					t.Errorf("writer %d: %v", i, err)
				}
			}
		})
	}
	queued.Wait()
	cancel()
	close(release)
	all.Wait()
	list, end := changes(t, s, 0, 1000)
	if len(list) != writers*7/10 || end.Seq != int64(len(list)) {
		t.Errorf("%d changes up to %d", len(list), end.Seq)
	}
	for i := range writers {
		_, err := get(t, s, store.KindCluster, fmt.Sprintf("c%d", i))
		if gone := i%10 >= 1 && i%10 <= 3; gone != errors.Is(err, store.ErrNotFound) {
			t.Errorf("writer %d: %v", i, err)
		}
	}
}
