package owner

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/services/gitcache/internal/metrics"
	"fairlead.dev/services/gitcache/internal/mirror"
	"fairlead.dev/services/gitcache/internal/source"
)

// TestWhoGetsTheLeaseBeforeItIsToldPollsAsTheOwnerBefore: a try for the lease may be on its way to the store
// when the owner says that the source is about to move.
func TestWhoGetsTheLeaseBeforeItIsToldPollsAsTheOwnerBefore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		told   bool          // after the tenure began
		nudged bool          // before it was told
		want   time.Duration // until the poll
	}{
		"told":            {told: true, want: time.Minute},
		"never told":      {want: expectTime},
		"told and nudged": {told: true, nudged: true, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tn := newTenure(source.Source{UID: "u1"})
				tn.loop.o.loops["u1"] = tn.loop
				tn.loop.o.Expect("u1")
				due, handed := tn.loop.place.beginTenure()
				tn.pollAt, tn.due = due.Next, due.Next
				if !handed {
					t.Error("it was not handed over")
				}
				if c.nudged {
					tn.loop.nudgeLoop()
					if err := tn.waitForDue(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				now := time.Now()
				if c.told {
					if err := tn.loop.o.Take(t.Context(), "u1", Schedule{Last: now, Next: now.Add(time.Minute)}, false); err != nil {
						t.Fatal(err)
					}
					if err := tn.waitForDue(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if got := tn.pollAt.Sub(now); got != c.want {
					t.Errorf("it polls after %s, want %s", got, c.want)
				}
			})
		})
	}
}

// A replica that was told while a copy into its mirror ends, after it got the lease, polls as the owner before.
func TestWhoIsToldWhileItsTenureBeginsPollsAsTheOwnerBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tn := newTenure(source.Source{UID: "u1"})
		tn.loop.o.loops["u1"] = tn.loop
		_, back, ok := tn.loop.o.Borrow(t.Context(), "u1")
		if !ok {
			t.Fatal("the mirror is not to be had")
		}
		tn.loop.o.Expect("u1")
		next := time.Now().Add(time.Minute)
		took := make(chan error, 1)
		began := make(chan Schedule)
		go func() {
			due, _ := tn.loop.place.beginTenure()
			began <- due
		}()
		synctest.Wait()
		go func() { took <- tn.loop.o.Take(t.Context(), "u1", Schedule{Next: next}, false) }()
		synctest.Wait()
		back()
		if due := <-began; !due.Next.Equal(next) {
			t.Errorf("it polls in %s, want as the owner before: in a minute", time.Until(due.Next))
		}
		if err := <-took; err != nil {
			t.Errorf("it owns it and says: %v", err)
		}
	})
}

// A mirror may be removed while it is on loan: the tenure that waited for its return works with what is there then.
func TestATenureHasTheMirrorThatIsThereAfterALoan(t *testing.T) {
	t.Parallel()
	mirrors, err := mirror.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mirrors.Close)
	removed, err := mirrors.Mirror("u1")
	if err != nil {
		t.Fatal(err)
	}
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		tn := newTenure(source.Source{UID: "u1"})
		l := tn.loop
		l.o.loops["u1"] = l
		l.o.deps.Mirrors, l.o.deps.Metrics, l.o.deps.Turned = mirrors, counted, func() {}
		began := make(chan *mirror.Mirror, 1)
		ctx, cancel := context.WithCancel(t.Context())
		l.o.deps.Warm = func(context.Context, string, string) bool {
			m, _ := mirrors.Lookup("u1")
			began <- m
			cancel()
			return false
		}
		_, back, ok := l.o.Borrow(t.Context(), "u1")
		if !ok {
			t.Fatal("the mirror is not to be had")
		}
		ended := make(chan error, 1)
		go func() { ended <- l.runTenure(ctx, &coordination.Lease{}) }()
		synctest.Wait()
		if err := mirrors.Remove("u1"); err != nil {
			t.Fatal(err)
		}
		back()
		if m := <-began; m == nil || m == removed {
			t.Errorf("the mirror is %p, and %p was removed", m, removed)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
