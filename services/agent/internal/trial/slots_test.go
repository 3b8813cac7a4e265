package trial

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	goesOn := Input{Record: record, Open: func(context.Context, time.Time) (*set.Set, error) { return nil, errors.New("away") }}
	if trial.Step(t.Context(), t.Context(), goesOn); len(runner.slots) != 1 {
		t.Fatalf("%d slots are held by a run that goes on", len(runner.slots))
	}
	goesOn.Why = "Another revision waits."
	if wait, _ := trial.Step(t.Context(), t.Context(), goesOn); wait != look || len(runner.slots) != 0 {
		t.Errorf("again in %s, with %d slots held", wait, len(runner.slots))
	}
}
