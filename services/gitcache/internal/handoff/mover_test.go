package handoff_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"fairlead.dev/platform/coordination"
	"fairlead.dev/services/gitcache/internal/handoff"
	"fairlead.dev/services/gitcache/internal/owner"
)

// A source that was offered in an earlier cut-off is offered for as long in the next one.
func TestASourceIsGivenUpOnlyAfterItWasOfferedInThisCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link := &cuttable{offer: func() error { return handoff.ErrCold }}
		o := startMover(t, link)
		link.cut.Store(true)
		<-time.After(10 * time.Second)
		if link.offers.Load() == 0 {
			t.Fatal("the source is not offered")
		}
		link.cut.Store(false)
		<-time.After(time.Hour)
		link.cut.Store(true)
		<-time.After(time.Minute - time.Second)
		if o.yields.Load() > 0 {
			t.Error("the source is given up before it was offered for a minute")
		}
		<-time.After(10 * time.Second)
		if o.yields.Load() == 0 {
			t.Error("the source is not given up")
		}
	})
}

func TestASourceIsNotGivenUpWhenTheCutOffEndsDuringTheOffer(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]error{"refused": errors.New("timeout"), "accepted": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				link := &cuttable{}
				link.offer = func() error {
					<-time.After(40 * time.Second)
					if link.offers.Load() == 1 {
						return errors.New("timeout")
					}
					link.cut.Store(false)
					return result
				}
				link.cut.Store(true)
				o := startMover(t, link)
				<-time.After(2 * time.Minute)
				if link.offers.Load() != 2 {
					t.Fatalf("%d offers", link.offers.Load())
				}
				if o.yields.Load() > 0 {
					t.Error("the source is given up though the console is reached again")
				}
			})
		})
	}
}

// startMover makes a mover run that has one source, which it keeps while the console is reached.
func startMover(t *testing.T, link *cuttable) *yielding {
	t.Helper()
	metrics, err := handoff.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	o := &yielding{}
	m := handoff.New("one", 0, time.Now, handoff.Deps{
		Peers: link, Owner: o, Metrics: metrics, Tracer: noop.NewTracerProvider().Tracer(""),
		Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return o
}

// cuttable is a replica that may be cut off from the console, and another one that should own its source then.
type cuttable struct {
	cut    atomic.Bool
	offers atomic.Int32
	offer  func() error
}

func (*cuttable) Rank(string) []string { return []string{"two"} }

func (*cuttable) Member(id string) (coordination.Member, bool) {
	return coordination.Member{ID: id}, true
}

func (c *cuttable) Offer(context.Context, coordination.Member, handoff.Offer) error {
	c.offers.Add(1)
	return c.offer()
}

func (*cuttable) Draining() bool { return false }

func (c *cuttable) CutOff() bool { return c.cut.Load() }

func (*cuttable) Alone() bool { return false }

// yielding owns one source and counts how often its lease is given up.
type yielding struct {
	handoff.Owner

	yields atomic.Int32
}

func (*yielding) Owned() []owner.Owned { return []owner.Owned{{UID: "a", Name: "a", Kept: true}} }

func (y *yielding) Yield(context.Context, string) (owner.Schedule, error) {
	y.yields.Add(1)
	return owner.Schedule{}, nil
}
