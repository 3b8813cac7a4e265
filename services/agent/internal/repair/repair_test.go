package repair_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/object"
	"fairlead.dev/services/agent/internal/repair"
)

const service = "shop"

var kind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}

// world is a cluster at the edge: its objects have a field that is ours, or somebody else's.
type world struct {
	memory  *memory.Memory
	repair  *repair.Repair
	jump    atomic.Int64 // of the clock
	metrics *prometheus.Registry

	mu       sync.Mutex // guards what follows
	version  int
	repairs  map[string]int
	verified map[string]int
	fail     error
	outcome  repair.Outcome
	after    func(name string) // a repair
	same     bool
}

func newWorld(objects int) *world {
	w := &world{metrics: prometheus.NewRegistry(), repairs: map[string]int{}, verified: map[string]int{}, same: true}
	w.memory = memory.New(func(service string) { w.repair.Notice(service) })
	w.repair = repair.New(w.memory, w, w, func() time.Time { return time.Now().Add(time.Duration(w.jump.Load())) },
		slog.New(slog.DiscardHandler), w.metrics)
	var entries []inventory.Entry
	for i := range objects {
		entries = append(entries, inventory.Entry{Ref: object.Ref{Key: key(fmt.Sprint("o", i)), Version: "v1"}, Sum: 1})
	}
	w.memory.Track(service, entries)
	for i := range objects {
		w.wrote(fmt.Sprint("o", i))
	}
	return w
}

func key(name string) object.Key {
	return object.Key{Group: kind.Group, Kind: kind.Kind, Namespace: "n", Name: name}
}

// meta is the object at a new version.
func (w *world) meta(name, field string) *metav1.PartialObjectMetadata {
	w.version++
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "n", UID: types.UID("u-" + name), ResourceVersion: fmt.Sprint(w.version),
		Labels: map[string]string{object.ServiceLabel: service},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{
				Manager: object.FieldManager, Operation: metav1.ManagedFieldsOperationApply,
				FieldsV1: metav1.NewFieldsV1(`{"f:` + field + `":{}}`),
			},
		},
	}}
}

func (w *world) wrote(name string) {
	meta := w.meta(name, "ours")
	w.memory.Wrote(key(name), 1, meta, 0)
	w.memory.Saw(kind, meta, 0, health.Health{State: health.Healthy})
}

// edit is somebody else's.
func (w *world) edit(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.memory.Saw(kind, w.meta(name, "less"), 0, health.Health{State: health.Healthy})
}

func (w *world) Repair(_ context.Context, _ string, key object.Key, tell bool) (repair.Outcome, error) {
	w.mu.Lock()
	w.repairs[key.Name]++
	err, outcome, after := w.fail, w.outcome, w.after
	if err == nil {
		w.wrote(key.Name)
	}
	w.mu.Unlock()
	if !tell {
		outcome = repair.Outcome{}
	}
	if after != nil && err == nil {
		after(key.Name)
	}
	return outcome, err
}

func (w *world) Verify(_ context.Context, _ string, key object.Key) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verified[key.Name]++
	return w.same, nil
}

func (w *world) counted(name string) int {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.repairs[name]
}

func run(t *testing.T, objects int, do func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(objects)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = w.repair.Run(ctx)
		}()
		synctest.Wait()
		do(t, w)
		cancel()
		<-ended
	})
}

func TestEditIsRepairedWithinASecondAndOnce(t *testing.T) {
	t.Parallel()
	run(t, 3, func(t *testing.T, w *world) {
		for range 10 { // in one moment
			w.edit("o1")
		}
		<-time.After(500 * time.Millisecond)
		if n := w.counted("o1"); n != 1 {
			t.Errorf("%d repairs", n)
		}
		<-time.After(time.Hour)
		if w.counted("o1") != 1 || w.counted("o0") != 0 {
			t.Errorf("an hour later: %v", w.repairs)
		}
	})
}

func TestDeletedObjectIsMadeAnew(t *testing.T) {
	t.Parallel()
	run(t, 1, func(t *testing.T, w *world) {
		w.memory.Gone(key("o0"), "", 0)
		<-time.After(time.Second)
		if n := w.counted("o0"); n != 1 {
			t.Errorf("%d repairs", n)
		}
	})
}

func TestDriftStormCostsOneRepairEach(t *testing.T) {
	t.Parallel()
	const objects = 2000
	run(t, objects, func(t *testing.T, w *world) {
		for i := range objects {
			w.edit(fmt.Sprint("o", i))
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		total := 0
		for _, n := range w.repairs {
			total += n
		}
		if total != objects || w.memory.Counts().Drifted != 0 {
			t.Errorf("%d repairs, %d have drifted", total, w.memory.Counts().Drifted)
		}
	})
}

// A controller that never gives in: few repairs, ever more slowly; and peace is noticed.
func TestFightBacksOffAndEnds(t *testing.T) {
	t.Parallel()
	run(t, 1, func(t *testing.T, w *world) {
		w.outcome = repair.Outcome{Rival: "hpa", Fields: []string{"/spec/replicas"}}
		w.after = func(name string) { time.AfterFunc(time.Second, func() { w.edit(name) }) }
		w.edit("o0")
		<-time.After(time.Minute)
		if n := w.counted("o0"); n != 3 {
			t.Errorf("%d repairs in a minute", n)
		}
		summary := w.memory.Summary(service)
		if len(summary.Rivals) != 1 || summary.Rivals[0].Manager != "hpa" ||
			summary.Rivals[0].Fields[0] != "/spec/replicas" {
			t.Errorf("rivals: %+v", summary.Rivals)
		}
		<-time.After(24 * time.Hour)
		if n := w.counted("o0"); n < 20 || n > 35 {
			t.Errorf("%d repairs in a day", n)
		}
		w.mu.Lock()
		w.after = nil
		w.mu.Unlock()
		<-time.After(2 * time.Hour)
		synctest.Wait()
		if summary := w.memory.Summary(service); len(summary.Rivals) != 0 || summary.Drifted != 0 {
			t.Errorf("after the peace: %+v", summary)
		}
		before := w.counted("o0")
		w.edit("o0")
		<-time.After(time.Second)
		if w.counted("o0") != before+1 {
			t.Error("the next edit waits")
		}
	})
}

// A new revision, or the rival itself, may put an object right whose next repair is not due: there is peace then, too.
func TestAFightEndsWithoutARepair(t *testing.T) {
	t.Parallel()
	run(t, 1, func(t *testing.T, w *world) {
		w.outcome = repair.Outcome{Rival: "hpa", Fields: []string{"/spec/replicas"}}
		w.after = func(name string) { time.AfterFunc(time.Second, func() { w.edit(name) }) }
		w.edit("o0")
		<-time.After(50 * time.Second)
		synctest.Wait()
		if summary := w.memory.Summary(service); len(summary.Rivals) != 1 || summary.Drifted != 1 {
			t.Fatalf("at first: %+v", summary)
		}
		w.mu.Lock()
		w.wrote("o0")
		w.mu.Unlock()
		<-time.After(time.Hour)
		synctest.Wait()
		if summary := w.memory.Summary(service); len(summary.Rivals) != 0 {
			t.Errorf("an hour later: %+v", summary)
		}
	})
}

func TestDeletingAgainAndAgainIsAFight(t *testing.T) {
	t.Parallel()
	run(t, 1, func(t *testing.T, w *world) {
		w.after = func(name string) { time.AfterFunc(time.Second, func() { w.memory.Gone(key(name), "", 0) }) }
		w.memory.Gone(key("o0"), "", 0)
		<-time.After(50 * time.Second)
		if n := w.counted("o0"); n != 3 {
			t.Errorf("%d repairs", n)
		}
		if summary := w.memory.Summary(service); len(summary.Rivals) != 1 || len(summary.Rivals[0].Fields) != 0 {
			t.Errorf("rivals: %+v", summary.Rivals)
		}
	})
}

// Edits of different fields are no fight, but no more often than the bucket has it.
func TestBucketBoundsRepairs(t *testing.T) {
	t.Parallel()
	run(t, 1, func(t *testing.T, w *world) {
		edits := 0
		w.after = func(name string) {
			w.mu.Lock()
			edits++
			w.outcome = repair.Outcome{Rival: "people", Fields: []string{fmt.Sprint("/data/", edits)}}
			w.mu.Unlock()
			time.AfterFunc(time.Second, func() { w.edit(name) })
		}
		w.edit("o0")
		<-time.After(10 * time.Minute)
		if n := w.counted("o0"); n < 15 || n > 5+20+1 {
			t.Errorf("%d repairs in ten minutes", n)
		}
		if summary := w.memory.Summary(service); len(summary.Rivals) != 0 {
			t.Errorf("rivals: %+v", summary.Rivals)
		}
	})
}

func TestFailuresBackOff(t *testing.T) {
	t.Parallel()
	run(t, 1, func(t *testing.T, w *world) {
		w.fail = errors.New("denied")
		w.edit("o0")
		<-time.After(time.Hour)
		if n := w.counted("o0"); n < 10 || n > 25 {
			t.Errorf("%d attempts in an hour", n)
		}
		w.mu.Lock()
		w.fail = nil
		w.mu.Unlock()
		<-time.After(6 * time.Minute)
		synctest.Wait()
		if w.memory.Summary(service).Drifted != 0 {
			t.Error("it is not put right")
		}
	})
}

func TestHeldServiceIsAskedSeldom(t *testing.T) {
	t.Parallel()
	run(t, 1, func(t *testing.T, w *world) {
		w.fail = repair.ErrNotNow
		w.edit("o0")
		<-time.After(time.Minute)
		if n := w.counted("o0"); n < 5 || n > 8 {
			t.Errorf("%d attempts in a minute", n)
		}
		w.mu.Lock()
		w.fail = nil
		w.mu.Unlock()
		<-time.After(11 * time.Second)
		synctest.Wait()
		if w.memory.Summary(service).Drifted != 0 {
			t.Error("it is not put right")
		}
	})
}

// A clock that jumps makes no loop and stops no repair for good.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		run(t, 2, func(t *testing.T, w *world) {
			w.edit("o0")
			<-time.After(time.Second)
			w.jump.Store(int64(jump))
			w.edit("o0")
			w.edit("o1")
			<-time.After(time.Minute)
			if a, b := w.counted("o0"), w.counted("o1"); a != 2 || b != 1 {
				t.Errorf("jump %v: %d and %d repairs", jump, a, b)
			}
		})
	}
}

func TestVerificationFindsAWrongCache(t *testing.T) {
	t.Parallel()
	run(t, 10, func(t *testing.T, w *world) {
		<-time.After(14 * time.Hour)
		synctest.Wait()
		w.mu.Lock()
		all := 0
		for i := range 10 {
			n := w.verified[fmt.Sprint("o", i)]
			if n < 1 || n > 2 {
				t.Errorf("o%d was compared %d times", i, n)
			}
			all += n
		}
		want := fmt.Sprintf(`
# HELP fairlead_agent_verifications_total Objects that were compared by a dry run with what is believed of them, by result.
# TYPE fairlead_agent_verifications_total counter
fairlead_agent_verifications_total{result="different"} 0
fairlead_agent_verifications_total{result="failed"} 0
fairlead_agent_verifications_total{result="same"} %d
`, all)
		if err := testutil.GatherAndCompare(w.metrics, strings.NewReader(want),
			"fairlead_agent_verifications_total"); err != nil {
			t.Error(err)
		}
		w.same = false
		w.mu.Unlock()
		<-time.After(2 * time.Hour)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.repairs) == 0 {
			t.Error("what was wrong is not put right")
		}
	})
}
