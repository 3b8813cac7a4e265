package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/platform/coordination"
)

// flaky is a Leases and Membership whose store goes away. flaky stands for the network's edge.
type flaky struct {
	coordination.Coordinator
	down atomic.Bool
}

var errDown = errors.New("store is down")

func (f *flaky) Acquire(ctx context.Context, key, holder string, ttl time.Duration) (*coordination.Lease, error) {
	if f.down.Load() {
		return nil, errDown
	}
	return f.Coordinator.Acquire(ctx, key, holder, ttl)
}

func (f *flaky) Join(ctx context.Context, group string, m coordination.Member, ttl time.Duration) error {
	if f.down.Load() {
		return errDown
	}
	return f.Coordinator.Join(ctx, group, m, ttl)
}

const holdTTL = 15 * time.Second

func hold(c coordination.Leases, holder string, do func(context.Context, *coordination.Lease) error) coordination.LeaseRunner {
	return coordination.LeaseRunner{
		Leases: c, Key: "k", Holder: holder, TTL: holdTTL, Log: slog.New(slog.DiscardHandler), Do: do,
	}
}

func untilDone(ctx context.Context, _ *coordination.Lease) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestHoldKeepsTheLeaseAndHandsItOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openMemory(t)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- hold(c, "one", untilDone).Run(ctx) }()
		nextCtx, stopNext := context.WithCancel(t.Context())
		nextDone := make(chan error)
		synctest.Wait()
		go func() { nextDone <- hold(c, "two", untilDone).Run(nextCtx) }()

		for range 100 {
			<-time.After(holdTTL)
			if h, _ := c.Holder(t.Context(), "k"); h != "one" {
				t.Fatalf("holder: %q", h)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if h, _ := c.Holder(t.Context(), "k"); h == "one" {
			t.Error("not released at the end")
		}
		<-time.After(holdTTL)
		if h, _ := c.Holder(t.Context(), "k"); h != "two" {
			t.Errorf("holder after the handover: %q", h)
		}
		stopNext()
		if err := <-nextDone; err != nil {
			t.Error(err)
		}
	})
}

func TestHoldTriesOnAfterFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &flaky{Coordinator: openMemory(t)}
		c.down.Store(true)
		var turns atomic.Int32
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- hold(c, "one", func(ctx context.Context, l *coordination.Lease) error {
				if turns.Add(1) < 3 {
					return fmt.Errorf("stale epoch")
				}
				return untilDone(ctx, l)
			}).Run(ctx)
		}()
		<-time.After(10 * holdTTL)
		if turns.Load() != 0 {
			t.Error("worked without a lease")
		}
		c.down.Store(false)
		<-time.After(3 * holdTTL)
		if turns.Load() != 3 {
			t.Errorf("%d turns after two errors", turns.Load())
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// The store is gone: work ends by the holder's own clock, before the lease does.
func TestHoldEndsWorkWhenTheStoreIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openMemory(t)
		ended := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		var log strings.Builder
		go func() {
			runner := hold(c, "one", func(ctx context.Context, l *coordination.Lease) error {
				<-ctx.Done()
				if l.Valid() {
					t.Error("work was ended although the lease is valid")
				}
				ended <- context.Cause(ctx)
				return nil
			})
			runner.Log = slog.New(slog.NewTextHandler(&log, nil))
			done <- runner.Run(ctx)
		}()
		synctest.Wait()
		began := time.Now()
		_ = c.Close() // every renewal fails from here on
		if cause := <-ended; !errors.Is(cause, coordination.ErrLost) {
			t.Errorf("cause: %v", cause)
		}
		if after := time.Since(began); after != holdTTL*9/10 {
			t.Errorf("work ended after %s", after)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := log.String(); !strings.Contains(got, "lease lost: ") || strings.Contains(got, "<nil>") {
			t.Errorf("logged %s", got)
		}
	})
}

func TestPresenceBeatsAndLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &flaky{Coordinator: openMemory(t)}
		url := "https://one"
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		p := coordination.Presence{
			Membership: c, Group: "g", TTL: holdTTL, Log: slog.New(slog.DiscardHandler),
			Member: func() coordination.Member { return coordination.Member{ID: "one", URL: url} },
		}
		go func() { done <- p.Run(ctx) }()
		members := func() int {
			m, err := c.Members(t.Context(), "g")
			if err != nil {
				t.Fatal(err)
			}
			return len(m)
		}
		for range 50 {
			synctest.Wait()
			if members() != 1 {
				t.Fatal("not a member")
			}
			<-time.After(holdTTL / 2)
		}
		c.down.Store(true)
		<-time.After(2 * holdTTL)
		if members() != 0 {
			t.Error("a member without heartbeat stays")
		}
		c.down.Store(false)
		<-time.After(holdTTL)
		if members() != 1 {
			t.Error("not back after the store was down")
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if members() != 0 {
			t.Error("did not leave")
		}
	})
}

func TestHoldAndPresenceRefuseWhatCantWork(t *testing.T) {
	t.Parallel()
	h := hold(openMemory(t), "one", untilDone)
	h.TTL = 0
	if err := h.Run(t.Context()); err == nil {
		t.Error("a lease without ttl")
	}
	p := coordination.Presence{
		Membership: openMemory(t), Group: "g", Log: slog.New(slog.DiscardHandler),
		Member: func() coordination.Member { return coordination.Member{ID: "one"} },
	}
	if err := p.Run(t.Context()); err == nil {
		t.Error("a member without ttl")
	}
}
