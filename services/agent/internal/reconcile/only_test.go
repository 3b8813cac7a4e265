package reconcile

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/reconcile/machine"
	"fairlead.dev/services/agent/internal/watch"
)

// away is a hub that gives no content and takes reports.
type away struct{ last *deliveryv1.ServiceReport }

func (*away) Has(desired.Service) bool                       { return false }
func (*away) Prepare(context.Context, desired.Service) error { return errors.New("the hub is away") }

func (*away) Open(context.Context, desired.Service) (io.ReadCloser, error) {
	return nil, errors.New("the hub is away")
}
func (a *away) Set(report *deliveryv1.ServiceReport) error { a.last = report; return nil }
func (a *away) Latest(string) *deliveryv1.ServiceReport    { return a.last }

// runRound has a worker do what the table says, from its verdict until it rests, and returns for how long.
func runRound(ctx context.Context, w *worker, service desired.Service, record inventory.Record) time.Duration {
	w.order = order{ctx: ctx, patience: ctx, service: service}
	w.round = round{record: record, standing: idle}
	state, out := machine.State{Place: machine.Deciding}, w.weighWanted()
	for {
		var actions []machine.Action
		state, actions = machine.Next(state, out.event)
		if state.Rests() {
			return out.wait
		}
		out = w.doAction(actions[0])
	}
}

// The time of a retry is no reason to look again where nothing is tried: a keeper would do so without a pause.
func TestAKeeperDoesNotLookAgainForARetryThatIsNotMade(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*desired.Service){
		"other content": func(s *desired.Service) { s.Path, s.Digest = "b", "d2" },
		"a freeze is put": func(s *desired.Service) {
			s.Windows = []*deliveryv1.WindowSet{{Kind: "project", Name: "shop", Freeze: &deliveryv1.Freeze{}}}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			store, err := desired.Open(t.TempDir(), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			known := memory.New(func(string) {})
			there := &away{}
			c := &Controller{Deps: Deps{
				Desired: store, Artifacts: there, Reports: there, Inventory: inventory.New(nil, nil), Memory: known,
				Watcher: watch.New(nil, known, func(string) {}, slog.New(slog.DiscardHandler),
					prometheus.NewRegistry()),
			}, turns: newTurns()}
			w := newWorker(&site{controller: c, name: "web", log: slog.New(slog.DiscardHandler)}, nil)
			service := desired.Service{
				Name: "web", Digest: "d1", Path: "a", Manual: true,
				Sync: &deliveryv1.SyncSpec{
					Mode: deliveryv1.SyncMode_SYNC_MODE_HOLD, RequestTime: timestamppb.Now(),
					RequestOnly: []string{"ConfigMap/a"},
				},
			}
			service.AskedFor = service.Content()
			record := inventory.Record{
				Service: "web", Complete: true, Applied: inventory.Applied{Digest: "d0", Set: "before"},
			}
			runRound(t.Context(), w, service, record)
			if w.refusal.again.IsZero() {
				t.Fatalf("the sync was not refused for a while: %+v", w.refusal)
			}
			w.refusal.again = time.Now().Add(-time.Minute)
			if wait := runRound(t.Context(), w, service, record); wait > retryMax ||
				!w.refusal.again.After(time.Now()) {
				t.Errorf("it is not tried again when it is due: next look in %s", wait)
			}
			w.refusal.again = time.Now().Add(-time.Minute)
			change(&service)
			for range 3 {
				if wait := runRound(t.Context(), w, service, record); wait <= 0 {
					t.Errorf("the next look is in %s", wait)
				}
			}
		})
	}
}
