package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/reconcile/machine"
	"fairlead.dev/services/agent/internal/trial"
	"fairlead.dev/services/agent/internal/watch"
)

// heard takes reports.
type heard chan *deliveryv1.ServiceReport

func (h heard) Set(report *deliveryv1.ServiceReport) error { h <- report; return nil }
func (h heard) Latest(string) *deliveryv1.ServiceReport    { return nil }

// A service that names no account is refused before anything is asked of the cluster: the keeper's loop needs none.
func TestAKeeperAnswersFromItsFirstLookToItsEnd(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	store, err := desired.Open(t.TempDir(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	known, reports := memory.New(func(string) {}), make(heard)
	c := &Controller{Deps: Deps{
		Desired: store, Reports: reports, Inventory: inventory.New(nil, nil), Memory: known, Log: quiet,
		Watcher: watch.New(nil, known, func(string) {}, quiet, prometheus.NewRegistry()),
		Trials:  trial.New(trial.Deps{Metrics: prometheus.NewRegistry(), Log: quiet}), RequireImpersonation: true,
	}, turns: newTurns(), retired: make(chan struct{}, 1)}
	want := func(digest string) {
		if err := store.Update([]desired.Service{{Name: "web", Digest: digest, Path: digest}}, nil, 1); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	k := newKeeper(c, "web")
	go k.run(ctx)
	if k.grantRepair() {
		t.Error("a repair was granted before anything was known")
	}
	for _, digest := range []string{"d1", "d2"} {
		want(digest)
		k.askLook()
		report := <-reports
		if report.GetDigest() != digest || report.GetPhase() != deliveryv1.Phase_PHASE_FAILED {
			t.Errorf("of %s it was reported: %v", digest, report)
		}
		if !k.grantRepair() {
			t.Error("what is applied of a service that failed is not repaired")
		}
		k.postLetter(letter{kind: machine.Returned})
		k.askLook() // nothing else is wanted
	}
	k.site.wakeKeeper()
	if report := <-reports; report.GetDigest() != "d2" {
		t.Errorf("after news it was reported: %v", report)
	}
	cancel()
	<-k.closed
	<-c.retired
	if !k.hasEnded() || k.grantRepair() {
		t.Error("a keeper that has ended answers")
	}
	k.postLetter(letter{lacking: true})
}

// readOnly is an inventory that can't be written. It notes whose it should have been.
type readOnly struct{ services []string }

func (a *readOnly) Save(_ context.Context, record inventory.Record) error {
	a.services = append(a.services, record.Service)
	return errors.New("away")
}

// A service that fails while its tests run may do so for long: the tests of others don't wait for it.
func TestAServiceThatFailsHoldsNoSlotOfTests(t *testing.T) {
	t.Parallel()
	const slots = 8
	quiet, written := slog.New(slog.DiscardHandler), &readOnly{}
	trials := trial.New(trial.Deps{Inventories: written, Now: time.Now, Metrics: prometheus.NewRegistry(), Log: quiet})
	begin := func(service string, one *trial.Trial) {
		one.Step(t.Context(), t.Context(), trial.Input{
			Service: desired.Service{Name: service, TestRequest: &deliveryv1.TestRequest{Id: "1"}},
			Record:  inventory.Record{Service: service},
		})
	}
	store, err := desired.Open(t.TempDir(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	c := &Controller{Deps: Deps{
		Desired: store, Reports: make(heard, 1), Inventory: inventory.New(nil, nil),
		Memory: memory.New(func(string) {}), Log: quiet,
	}}
	w := newWorker(&site{name: "web", controller: c, log: quiet}, trials.Of("web"))
	begin("web", w.trial)
	for range slots - 1 {
		begin("shop", trials.Of("shop"))
	}
	begin("late", trials.Of("late"))
	if slices.Contains(written.services, "late") {
		t.Fatalf("more than %d services run tests", slots)
	}
	w.order.ctx, w.order.patience, w.problem = t.Context(), t.Context(), &problem{text: "It is at fault."}
	w.tellFailure()
	begin("late", trials.Of("late"))
	if !slices.Contains(written.services, "late") {
		t.Error("a service that failed keeps others from their tests")
	}
}
