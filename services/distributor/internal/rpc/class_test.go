package rpc

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
)

func TestClassLetsSomeWorkSomeWaitAndTellsTheOthersWhenToComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away, through atomic.Int64
		c := newClass(2, 3, 0, func() { away.Add(1) })
		ctx := context.Background()
		for range 2 {
			if err := c.enter(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			go func() {
				if err := c.enter(ctx); err != nil {
					t.Error(err)
					return
				}
				through.Add(1)
				c.leave()
			}()
		}
		synctest.Wait()
		pauses := map[string]bool{}
		for range 50 {
			err := c.enter(ctx)
			told, ok := errors.AsType[*connect.Error](err)
			if !ok || told.Code() != connect.CodeUnavailable {
				t.Fatalf("one too many: %v", err)
			}
			if s, err := strconv.Atoi(told.Meta().Get("Retry-After")); err != nil || s < 2 || s > 15 {
				t.Fatalf("Retry-After: %q", told.Meta().Get("Retry-After"))
			}
			pauses[told.Meta().Get("Retry-After")] = true
		}
		if len(pauses) < 3 || away.Load() != 50 || through.Load() != 0 {
			t.Errorf("%d pauses, %d turned away, %d through", len(pauses), away.Load(), through.Load())
		}
		gone, cancel := context.WithCancel(ctx)
		c.leave()
		c.leave()
		synctest.Wait()
		if through.Load() != 3 {
			t.Errorf("%d of those who waited came through", through.Load())
		}
		for range 2 {
			if err := c.enter(ctx); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- c.enter(gone) }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("who went while waiting: %v", err)
		}
	})
}

// An agent that was nudged has something to do; one that polls most likely has not.
func TestNudgedAgentsGoBeforePollingOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClass(1, 4, 0, func() {})
		ctx := context.Background()
		if err := c.enter(ctx); err != nil {
			t.Fatal(err)
		}
		var order []string // one call at a time has the turn
		ended := make(chan error, 16)
		begin := func(name string, enter func(context.Context) error) {
			go func() {
				err := enter(ctx)
				if err == nil {
					order = append(order, name)
					c.leave()
				}
				ended <- err
			}()
			synctest.Wait()
		}
		begin("polls 1", c.enter)
		begin("polls 2", c.enter)
		begin("nudged 1", c.enterUrgent)
		begin("nudged 2", c.enterUrgent)
		begin("polls 3", c.enter) // the line is full
		if err := <-ended; connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("polls 3: %v", err)
		}
		begin("nudged 3", c.enterUrgent) // in the place of polls 2
		if err := <-ended; connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("polls 2: %v", err)
		}
		c.leave()
		for range 4 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if want := []string{"nudged 1", "nudged 2", "nudged 3", "polls 1"}; !slices.Equal(order, want) {
			t.Errorf("%q, want %q", order, want)
		}
		if c.free != 1 || c.waiting() != 0 {
			t.Errorf("%d turns are free, %d wait", c.free, c.waiting())
		}
	})
}

// A call that would get its turn when its caller has given up is refused, however many may wait.
func TestALineIsNoLongerThanItsCallersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 100
		c := newClass(1, 1<<20, 10*time.Second, func() {})
		if err := c.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			<-time.After(time.Second)
			c.pace.Note(perSecond, true)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var refused, urgent atomic.Int64
		for range 3000 {
			go func() {
				if connect.CodeOf(c.enter(ctx)) == connect.CodeUnavailable {
					refused.Add(1)
				}
			}()
		}
		synctest.Wait()
		if n := c.waiting(); n < 900 || n > 1100 || refused.Load() != 3000-n {
			t.Errorf("%d wait for 10 s at %d a second, %d are refused", n, perSecond, refused.Load())
		}
		before := c.waiting()
		for range 10 {
			go func() {
				if connect.CodeOf(c.enterUrgent(ctx)) == connect.CodeUnavailable {
					urgent.Add(1)
				}
			}()
		}
		synctest.Wait()
		if c.waiting() != before || urgent.Load() != 0 || c.urgent.Len() != 10 {
			t.Errorf("%d wait, %d of them nudged, and %d nudged ones are refused", c.waiting(), c.urgent.Len(), urgent.Load())
		}
		cancel()
		synctest.Wait()
	})
}
