package shares

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

func TestOneOwnerTakesNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	s := New(3)
	if !s.Take("a", 2) || s.Take("a", 2) || !s.Take("a", 1) || s.Take("a", 1) {
		t.Error("a has not exactly its share")
	}
	if !s.Take("b", 3) {
		t.Error("a took of b's share")
	}
	s.Give("a", 1)
	if !s.Take("a", 1) {
		t.Error("what was given back is gone")
	}
	s.Give("a", 3)
	s.Give("b", 3)
	if len(s.held) != 0 {
		t.Errorf("owners are remembered: %v", s.held)
	}
}

func TestRoomForManyNetworksIsBounded(t *testing.T) {
	t.Parallel()
	r := NewRoom(2, 10)
	var cut []string
	enter := func(network string) *Place { return r.Enter(network, func() { cut = append(cut, network) }) }
	for i := range 10 {
		enter(fmt.Sprintf("192.0.2.%d", i))
	}
	last := enter("198.51.100.1")
	if len(cut) != 1 || cut[0] != "192.0.2.0" {
		t.Errorf("cut: %v", cut)
	}
	r.Leave(last)
	r.Leave(last)
	enter("198.51.100.2")
	if len(cut) != 1 {
		t.Errorf("cut: %v", cut)
	}
	if n := len(r.networks); n != 10 {
		t.Errorf("%d networks are known", n)
	}
}

func TestALineGivesTurnsInTheOrderOfTheWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLine(1)
		if err := l.Take(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if err := l.Take(t.Context(), "b"); err != nil {
			t.Fatalf("a has b's turn: %v", err)
		}
		var order []int
		var waits sync.WaitGroup
		wait := func(ctx context.Context, i int) {
			waits.Go(func() {
				if l.Take(ctx, "a") == nil {
					order = append(order, i)
					l.Give("a")
				}
			})
			synctest.Wait()
		}
		impatient, stop := context.WithCancel(t.Context())
		wait(t.Context(), 1)
		wait(impatient, 2)
		wait(t.Context(), 3)
		stop()
		synctest.Wait()
		l.Give("a")
		waits.Wait()
		l.Give("b")
		if !slices.Equal(order, []int{1, 3}) || len(l.owners) != 0 {
			t.Errorf("turns in the order %v, %d owners are remembered", order, len(l.owners))
		}
	})
}
