package report

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	deliveryv1 "fairlead.dev/gen/fairlead/delivery/v1"
)

// Progress that is overtaken within a second is never sent, and progress that goes on is sent once a second.
func TestProgressIsHeldBack(t *testing.T) {
	t.Parallel()
	r, err := Open(t.TempDir(), nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	r.now = func() time.Time { return now }
	set := func(phase deliveryv1.Phase, healthy int32) {
		t.Helper()
		if err := r.Set(&deliveryv1.ServiceReport{Service: "web", Phase: phase, ObjectsHealthy: healthy}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(phase deliveryv1.Phase, held time.Duration) {
		t.Helper()
		got, left := r.pending()
		if left != held || (len(got) == 0) != (phase == deliveryv1.Phase_PHASE_UNSPECIFIED) ||
			len(got) > 0 && got[0].GetPhase() != phase {
			t.Errorf("got %v, others after %s; want %s, and after %s", got, left, phase, held)
		}
	}
	set(deliveryv1.Phase_PHASE_APPLYING, 0)
	want(deliveryv1.Phase_PHASE_UNSPECIFIED, time.Second)
	now = now.Add(700 * time.Millisecond)
	set(deliveryv1.Phase_PHASE_PROGRESSING, 1)
	want(deliveryv1.Phase_PHASE_UNSPECIFIED, 300*time.Millisecond) // constant changes are told all the same
	now = now.Add(300 * time.Millisecond)
	want(deliveryv1.Phase_PHASE_PROGRESSING, 0)
	sent, _ := r.pending()
	if err := r.acknowledge(sent, []*deliveryv1.Acknowledgement{
		{Service: "web", Sequence: sent[0].GetSequence()},
	}); err != nil {
		t.Fatal(err)
	}
	set(deliveryv1.Phase_PHASE_PROGRESSING, 2)
	want(deliveryv1.Phase_PHASE_UNSPECIFIED, time.Second)
	set(deliveryv1.Phase_PHASE_HEALTHY, 3)
	want(deliveryv1.Phase_PHASE_HEALTHY, 0)
}
