package report

import (
	"log/slog"
	"path/filepath"
	"strings"
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

// What is tried again and fails as before has failed all the time: a sync, or a hub that comes back, begins no failure.
func TestAFailureThatIsTriedAgainKeepsItsBeginning(t *testing.T) {
	t.Parallel()
	const applying, healthy = deliveryv1.Phase_PHASE_APPLYING, deliveryv1.Phase_PHASE_HEALTHY
	once, twice := []deliveryv1.Phase{applying}, []deliveryv1.Phase{applying, applying}
	const words = "no such kind."
	for name, tc := range map[string]struct {
		known  bool // to the hub
		phases []deliveryv1.Phase
		digest string
		words  string
		keeps  bool
	}{
		"the same":           {known: true, phases: once, digest: "d", words: words, keeps: true},
		"tried twice":        {known: true, phases: twice, digest: "d", words: words, keeps: true},
		"with other words":   {known: true, phases: once, digest: "d", words: "denied."},
		"of another digest":  {known: true, phases: once, digest: "e", words: words},
		"healthy in between": {known: true, phases: []deliveryv1.Phase{applying, healthy}, digest: "d", words: words},
		"unknown to the hub": {phases: once, digest: "d", words: words},
	} {
		r, err := Open(t.TempDir(), nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1e9, 0)
		r.now = func() time.Time { return now }
		set := func(phase deliveryv1.Phase, digest, message string) {
			t.Helper()
			is := &deliveryv1.ServiceReport{Service: "web", Phase: phase, Digest: digest, Message: message}
			if err := r.Set(is); err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Minute)
		}
		began := now
		set(deliveryv1.Phase_PHASE_FAILED, "d", words)
		if tc.known {
			sent, _ := r.pending()
			err := r.acknowledge(sent, []*deliveryv1.Acknowledgement{{Service: "web", Sequence: sent[0].GetSequence()}})
			if err != nil {
				t.Fatal(err)
			}
		}
		for i, phase := range tc.phases {
			set(phase, "d", strings.Repeat("again ", i))
		}
		set(deliveryv1.Phase_PHASE_FAILED, tc.digest, tc.words)
		if at := r.Latest("web").GetObservedTime().AsTime(); at.Equal(began) != tc.keeps {
			t.Errorf("%s: failed since %s, and first at %s", name, at, began)
		}
	}
}

func TestAHoldKeepsItsBeginning(t *testing.T) {
	t.Parallel()
	r, err := Open(t.TempDir(), nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	r.now = func() time.Time { return now }
	began := now
	for _, step := range []struct{ digest, message string }{
		{"d", "Held (incident 7). 11111111 stays applied; 22222222 waits."},
		{"d", "Held (incident 7). 11111111 stays applied; 22222222 waits. Deployment shop/web: 1 of 2 replicas."},
		{"e", "Held (incident 7). 11111111 stays applied; 33333333 waits."},
	} {
		if err := r.Set(&deliveryv1.ServiceReport{
			Service: "web", Phase: deliveryv1.Phase_PHASE_HELD, Digest: step.digest, Message: step.message,
		}); err != nil {
			t.Fatal(err)
		}
		if at := r.Latest("web").GetObservedTime().AsTime(); !at.Equal(began) {
			t.Errorf("%q: held since %s, want %s", step.message, at, began)
		}
		now = now.Add(time.Minute)
	}
}

// A restart of the agent has the service tried again, too, whether it failed or was being tried at the end.
func TestAFailureKeepsItsBeginningOverARestart(t *testing.T) {
	t.Parallel()
	const applying, failed = deliveryv1.Phase_PHASE_APPLYING, deliveryv1.Phase_PHASE_FAILED
	const healthy = deliveryv1.Phase_PHASE_HEALTHY
	for name, tc := range map[string]struct {
		before, after []deliveryv1.Phase // the restart
		keeps         bool
	}{
		"while it rests":    {after: []deliveryv1.Phase{applying}, keeps: true},
		"while it is tried": {before: []deliveryv1.Phase{applying}, keeps: true},
		"while it is tried again": {
			before: []deliveryv1.Phase{applying, failed, applying}, after: []deliveryv1.Phase{applying}, keeps: true,
		},
		"after it was healthy": {before: []deliveryv1.Phase{applying, healthy}, after: []deliveryv1.Phase{applying}},
	} {
		dir, now := t.TempDir(), time.Unix(1e9, 0)
		open := func() *Reporter {
			r, err := Open(dir, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			r.now = func() time.Time { return now }
			return r
		}
		r := open()
		set := func(phases ...deliveryv1.Phase) {
			for _, phase := range phases {
				if err := r.Set(&deliveryv1.ServiceReport{Service: "web", Phase: phase, Digest: "d"}); err != nil {
					t.Fatal(err)
				}
				sent, _ := r.pending()
				for _, one := range sent {
					acks := []*deliveryv1.Acknowledgement{{Service: "web", Sequence: one.GetSequence()}}
					if err := r.acknowledge(sent, acks); err != nil {
						t.Fatal(err)
					}
				}
				now = now.Add(time.Minute)
			}
		}
		began := now
		set(failed)
		set(tc.before...)
		r = open()
		set(tc.after...)
		set(failed)
		if at := r.Latest("web").GetObservedTime().AsTime(); at.Equal(began) != tc.keeps {
			t.Errorf("%s: failed since %s, and first at %s", name, at, began)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*"+failureSuffix)); err != nil || len(left) > 0 {
			t.Errorf("%s: left on disk: %v, %v", name, left, err)
		}
	}
}
