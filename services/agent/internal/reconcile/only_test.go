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
	"fairlead.dev/platform/hub"
	"fairlead.dev/services/agent/internal/desired"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/memory"
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
			k := &keeper{
				controller: c, name: "web", log: slog.New(slog.DiscardHandler),
				backoff: hub.Backoff{Floor: retryFloor, Max: retryMax}, looks: newLooks(),
			}
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
			k.tend(t.Context(), t.Context(), service, record)
			if k.refusal.again.IsZero() {
				t.Fatalf("the sync was not refused for a while: %+v", k.refusal)
			}
			k.refusal.again = time.Now().Add(-time.Minute)
			if wait := k.tend(t.Context(), t.Context(), service, record); wait > retryMax ||
				!k.refusal.again.After(time.Now()) {
				t.Errorf("it is not tried again when it is due: next look in %s", wait)
			}
			k.refusal.again = time.Now().Add(-time.Minute)
			change(&service)
			for range 3 {
				if wait := k.tend(t.Context(), t.Context(), service, record); wait <= 0 {
					t.Errorf("the next look is in %s", wait)
				}
			}
		})
	}
}
