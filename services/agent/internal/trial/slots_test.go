package trial

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/set"
)

// awayInventories can't be written.
type awayInventories struct{}

func (awayInventories) Save(context.Context, inventory.Record) error { return errors.New("away") }

// A run that can't be written down, and is not asked for any more when it could be, leaves its slot to others.
func TestRunThatIsNotBegunHoldsNoSlot(t *testing.T) {
	t.Parallel()
	runner := New(Deps{
		Inventories: awayInventories{}, Dir: t.TempDir(), Now: time.Now, Metrics: prometheus.NewRegistry(),
		Log: slog.New(slog.DiscardHandler),
	})
	trial := runner.Of("shop")
	defer trial.Close()
	asked := Input{Service: desired.Service{TestRequest: &deliveryv1.TestRequest{Id: "1"}}}
	if wait, _ := trial.Step(t.Context(), t.Context(), asked); wait != look || len(runner.slots) != 1 {
		t.Fatalf("asked for: again in %s, with %d slots held", wait, len(runner.slots))
	}
	trial.Step(t.Context(), t.Context(), Input{})
	if held := len(runner.slots); held != 0 {
		t.Errorf("asked for no more: %d slots are held", held)
	}
}

// A run that can't go on now leaves its slot to others.
func TestRunThatWaitsHoldsNoSlot(t *testing.T) {
	t.Parallel()
	runner := New(Deps{
		Inventories: awayInventories{}, Dir: t.TempDir(), Now: time.Now, Metrics: prometheus.NewRegistry(),
		Log: slog.New(slog.DiscardHandler),
	})
	record, err := state{Run: &run{ID: "1", Start: time.Now()}}.writeState(inventory.Record{})
	if err != nil {
		t.Fatal(err)
	}
	trial := runner.Of("shop")
	defer trial.Close()
	open := func(context.Context, time.Time) (*set.Set, error) { return nil, errors.New("away") }
	goesOn := Input{Record: record, Open: open}
	if trial.Step(t.Context(), t.Context(), goesOn); len(runner.slots) != 1 {
		t.Fatalf("%d slots are held by a run that goes on", len(runner.slots))
	}
	goesOn.Why = "Another revision waits."
	if wait, _ := trial.Step(t.Context(), t.Context(), goesOn); wait != look || len(runner.slots) != 0 {
		t.Errorf("again in %s, with %d slots held", wait, len(runner.slots))
	}
}

// hub takes what is told of runs, and the inventory.
type hub struct {
	Details

	runs []*deliveryv1.TestRun
}

func (h *hub) Set(detail *deliveryv1.ServiceDetail) error {
	h.runs = append(h.runs, detail.GetTestRun())
	return nil
}

func (*hub) Save(context.Context, inventory.Record) error { return nil }

// A run that can't go on until its time is over is no failure of the tests, and does not run for ever.
func TestRunThatWaitsTooLongIsAborted(t *testing.T) {
	t.Parallel()
	told, now := &hub{}, time.Now()
	runner := New(Deps{
		Inventories: told, Details: told, Dir: t.TempDir(), Now: func() time.Time { return now },
		Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""),
	})
	begun := state{Run: &run{ID: "1", Start: now, Tests: []test{{Kind: "Job", Name: "a", Attempt: 1, Began: now}}}}
	record, err := begun.writeState(inventory.Record{})
	if err != nil {
		t.Fatal(err)
	}
	trial := runner.Of("shop")
	defer trial.Close()
	waits := Input{Record: record, Why: "Another revision waits.", Mask: func(text string) string { return text }}
	now = now.Add(usualTimeout - time.Second)
	if wait, _ := trial.Step(t.Context(), t.Context(), waits); wait != look || len(told.runs) != 0 {
		t.Fatalf("in time: again in %s, and it was told: %v", wait, told.runs)
	}
	now = now.Add(time.Second)
	if _, isNews := trial.Step(t.Context(), t.Context(), waits); !isNews || len(told.runs) != 1 {
		t.Fatalf("too late: it was told: %v", told.runs)
	}
	if end := told.runs[0]; end.GetOutcome() != aborted || end.GetMessage() != waits.Why || end.GetEndTime() == nil {
		t.Errorf("it ended as %v", end)
	}
}
