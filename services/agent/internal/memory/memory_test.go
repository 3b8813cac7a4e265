package memory_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.dev/services/agent/internal/health"
	"fairlead.dev/services/agent/internal/inventory"
	"fairlead.dev/services/agent/internal/memory"
	"fairlead.dev/services/agent/internal/object"
)

var (
	deployments = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	healthy     = health.Health{State: health.Healthy}
)

const service = "shop"

func uidOf(n int) types.UID { return types.UID(fmt.Sprintf("%08x-0000-4000-8000-00000000abcd", n)) }

func entryOf(name string, sum, owned object.Sum) inventory.Entry {
	return inventory.Entry{Ref: object.Ref{Key: keyOf(name), Version: "v1"}, Sum: sum, Owned: owned}
}

func keyOf(name string) object.Key {
	return object.Key{Group: "apps", Kind: "Deployment", Namespace: "n", Name: name}
}

// live is an object as the server has it: ours says which state our fields are in.
func live(name string, uid, version int, ours string) *metav1.PartialObjectMetadata {
	meta := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "n", UID: uidOf(uid), ResourceVersion: fmt.Sprint(version),
		Labels: map[string]string{object.ServiceLabel: service},
	}}
	if ours != "" {
		meta.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: object.FieldManager, Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: metav1.NewFieldsV1(`{"f:` + ours + `":{}}`),
		}}
	}
	return meta
}

func TestStatesOfAnObject(t *testing.T) {
	t.Parallel()
	m := memory.New(func(string) {})
	m.Track(service, []inventory.Entry{entryOf("a", 7, object.Owned(live("a", 1, 1, "x")))})
	state := func() memory.State { known, _ := m.Get(keyOf("a")); return known.State }
	if state() != memory.Unseen {
		t.Errorf("at first: %v", state())
	}
	steps := []struct {
		what string
		do   func()
		want memory.State
	}{
		{
			"seen as the inventory has it", func() { m.Saw(deployments, live("a", 1, 1, "x"), 5, healthy) },
			memory.Present,
		},
		{"a foreign field changed", func() { m.Saw(deployments, live("a", 1, 2, "x"), 6, healthy) }, memory.Present},
		{"a field was taken", func() { m.Saw(deployments, live("a", 1, 3, "y"), 6, healthy) }, memory.Drifted},
		{"applied again", func() { m.Wrote(keyOf("a"), 7, live("a", 1, 4, "z"), 6) }, memory.Present},
		{"all our fields were dropped", func() { m.Saw(deployments, live("a", 1, 5, ""), 6, healthy) }, memory.Drifted},
		{"deleted", func() { m.Gone(keyOf("a"), uidOf(1), 6) }, memory.Gone},
		{"made anew", func() { m.Wrote(keyOf("a"), 7, live("a", 2, 7, "z"), 6) }, memory.Present},
		{"the late news of the deletion", func() { m.Gone(keyOf("a"), uidOf(1), 6) }, memory.Present},
		{"held by annotation", func() {
			meta := live("a", 2, 8, "y")
			meta.Annotations = map[string]string{object.HoldAnnotation: "why"}
			m.Saw(deployments, meta, 6, healthy)
		}, memory.Held},
		{"the label was taken off", func() {
			meta := live("a", 2, 9, "z")
			meta.Labels = nil
			m.Saw(deployments, meta, 6, healthy)
		}, memory.Drifted},
	}
	for _, step := range steps {
		step.do()
		if state() != step.want {
			t.Errorf("%s: %v, want %v", step.what, state(), step.want)
		}
	}
}

// Where the server keeps no managed fields the content tells.
func TestDriftWithoutManagedFields(t *testing.T) {
	t.Parallel()
	m := memory.New(func(string) {})
	m.Track(service, []inventory.Entry{entryOf("a", 0, 0)})
	m.Wrote(keyOf("a"), 7, live("a", 1, 1, ""), 5)
	m.Saw(deployments, live("a", 1, 2, ""), 5, healthy)
	if known, _ := m.Get(keyOf("a")); known.State != memory.Present {
		t.Errorf("the same content: %v", known.State)
	}
	m.Saw(deployments, live("a", 1, 3, ""), 6, healthy)
	if known, _ := m.Get(keyOf("a")); known.State != memory.Drifted {
		t.Errorf("other content: %v", known.State)
	}
}

// TestLateEventsChangeNothing lets the answers to applies and the events of a watch come in any order that
// can be, some of them again, and compares with what the server has.
func TestLateEventsChangeNothing(t *testing.T) {
	t.Parallel()
	for range 2000 {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 1))
		m := memory.New(func(string) {})
		m.Track(service, []inventory.Entry{entryOf("a", 0, 0)})
		var answers, events []func()
		uid, ours, applied, there := 0, "", "", false
		version := 0
		for range 1 + random.IntN(12) {
			version++
			event := func(v, u int, o string) func() {
				return func() { m.Saw(deployments, live("a", u, v, o), object.Sum(v), healthy) }
			}
			switch random.IntN(4) {
			case 0: // an apply
				if !there {
					uid, there = uid+1, true
				}
				ours = fmt.Sprintf("apply%d", version)
				applied = ours
				v, u, o := version, uid, ours
				answers = append(answers,
					func() { m.Wrote(keyOf("a"), object.Sum(100+v), live("a", u, v, o), object.Sum(v)) })
				events = append(events, event(version, uid, ours))
			case 1: // another manager takes a field
				if there {
					ours = fmt.Sprintf("foreign%d", version)
					events = append(events, event(version, uid, ours))
				}
			case 2: // another manager writes a field of its own
				if there {
					events = append(events, event(version, uid, ours))
				}
			case 3:
				if there {
					there = false
					v, u := version, uid
					events = append(events, func() { m.Gone(keyOf("a"), uidOf(u), uint64(v)) })
				}
			}
		}
		if len(answers) == 0 {
			continue
		}
		deliver(random, answers, events)
		known, _ := m.Get(keyOf("a"))
		want := memory.Present
		if !there {
			want = memory.Gone
		} else if ours != applied {
			want = memory.Drifted
		}
		if known.State != want || there && known.UID != uidOf(uid) {
			t.Fatalf("seed %d: %v of %s, want %v of %s", seed, known.State, known.UID, want, uidOf(uid))
		}
	}
}

// deliver mixes two ordered streams, and now and then delivers an event once more.
func deliver(random *rand.Rand, answers, events []func()) {
	var again []func()
	for len(answers)+len(events) > 0 {
		if len(events) == 0 || len(answers) > 0 && random.IntN(2) == 0 {
			answers[0]()
			answers = answers[1:]
			continue
		}
		events[0]()
		again = append(again, events[0])
		events = events[1:]
		if random.IntN(3) == 0 {
			again[random.IntN(len(again))]()
		}
	}
}

func TestSummaryCountsAndNames(t *testing.T) {
	t.Parallel()
	var told []string
	m := memory.New(func(service string) { told = append(told, service) })
	m.Track(service, []inventory.Entry{
		entryOf("a", 1, 0), entryOf("b", 1, 0), entryOf("c", 1, 0), entryOf("leaving", 0, 0),
	})
	if s := m.Summary(service); s.Total != 3 || s.Unseen != 3 || s.Healthy != 0 || s.Worst.State != health.Unknown {
		t.Errorf("at first: %+v", s)
	}
	m.Saw(deployments, live("a", 1, 1, "x"), 1, healthy)
	m.Saw(deployments, live("b", 1, 1, "x"), 1, health.Health{State: health.Degraded, Message: "no image"})
	m.Gone(keyOf("c"), "", 0)
	s := m.Summary(service)
	if s.Total != 3 || s.Healthy != 1 || s.Missing != 1 || s.Worst.Ref.Name != "b" || s.Worst.Message != "no image" ||
		len(s.Bad) != 2 || s.Bad[1].State != health.Missing {
		t.Errorf("got %+v", s)
	}
	if damaged := m.Damaged(service); !slices.Equal(damaged, []object.Key{keyOf("c")}) {
		t.Errorf("damaged: %v", damaged)
	}
	told = nil
	m.Saw(deployments, live("a", 1, 2, "x"), 2, healthy) // a foreign field: no news
	if len(told) > 0 {
		t.Errorf("told %v", told)
	}
	m.Saw(deployments, live("b", 1, 2, "x"), 2, health.Health{State: health.Degraded, Message: "another reason"})
	m.Fought(keyOf("a"), "hpa", []string{"/spec/replicas"}, time.Time{})
	m.Unsure(deployments, "the API server is away")
	if len(told) != 3 {
		t.Errorf("told %v", told)
	}
	if s := m.Summary(service); s.Healthy != 0 || len(s.Rivals) != 1 || s.Bad[0].State != health.Unknown {
		t.Errorf("unsure: %+v", s)
	}
	m.Unsure(deployments, "")
	m.Forget(service)
	if s := m.Summary(service); s.Total != 0 || len(slices.Collect(m.Kinds())) != 0 {
		t.Errorf("forgotten: %+v", s)
	}
}

// A model: whatever is tracked and forgotten, exactly the rest is found.
func TestRecordsAreFoundAndForgotten(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 2))
	m := memory.New(func(string) {})
	model := map[string]map[string]object.Sum{}
	for range 300 {
		owner := fmt.Sprintf("service-%d", random.IntN(5))
		var entries []inventory.Entry
		has := map[string]object.Sum{}
		for i := range random.IntN(400) {
			if random.IntN(2) == 0 {
				name := fmt.Sprintf("%s-%d", owner, i)
				has[name] = object.Sum(1 + random.IntN(1000))
				entries = append(entries, entryOf(name, has[name], 0))
			}
		}
		m.Track(owner, entries)
		model[owner] = has
	}
	total := 0
	for owner, has := range model {
		total += len(has)
		for i := range 400 {
			name := fmt.Sprintf("%s-%d", owner, i)
			known, ok := m.Get(keyOf(name))
			sum, want := has[name]
			if ok != want || ok && (known.Manifest != sum || known.Service != owner) {
				t.Fatalf("seed %d: %s: %+v %v, want %v %v", seed, name, known, ok, sum, want)
			}
		}
		if count := m.Summary(owner).Total; count != len(has) {
			t.Errorf("seed %d: %s has %d, want %d", seed, owner, count, len(has))
		}
	}
	if m.Counts().Total != total {
		t.Errorf("seed %d: %d in all, want %d", seed, m.Counts().Total, total)
	}
}

func TestSweepFindsWhatWasNotNamed(t *testing.T) {
	t.Parallel()
	m := memory.New(func(string) {})
	m.Track(service, []inventory.Entry{entryOf("a", 1, 0), entryOf("b", 1, 0), entryOf("c", 1, 0)})
	for _, name := range []string{"a", "b", "c"} {
		m.Saw(deployments, live(name, 1, 1, "x"), 1, healthy)
	}
	m.Sweep(deployments)
	m.Saw(deployments, live("a", 1, 1, "x"), 1, healthy)
	m.Wrote(keyOf("c"), 1, live("c", 2, 5, "x"), 1) // made while the list was on its way
	if unnamed := m.Unnamed(deployments); !slices.Equal(unnamed, []object.Key{keyOf("b")}) {
		t.Errorf("got %v", unnamed)
	}
}

func TestBackoffGrowsAndIsForgotten(t *testing.T) {
	t.Parallel()
	m := memory.New(func(string) {})
	now := time.Unix(1000, 0)
	var last time.Duration
	for range 20 {
		m.Failed(keyOf("a"), now, "forbidden")
		wait := m.Backoff(keyOf("a")).Sub(now)
		if wait < last || wait > 5*time.Minute {
			t.Errorf("%v after %v", wait, last)
		}
		last = wait
	}
	m.Succeeded(keyOf("a"))
	if !m.Backoff(keyOf("a")).IsZero() {
		t.Error("a success is not believed")
	}
	m.Track(service, []inventory.Entry{entryOf("a", 7, 0)})
	m.Failed(keyOf("a"), now, "forbidden")
	m.Forget(service)
	if !m.Backoff(keyOf("a")).IsZero() {
		t.Error("the failure of an object that left is kept")
	}
}

func TestRecordsTakeAtMost250Bytes(t *testing.T) { //nolint:paralleltest // It measures the heap.
	const objects = 100_000
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	m := memory.New(func(string) {})
	for s := range 100 {
		entries := make([]inventory.Entry, objects/100)
		for i := range entries {
			name := fmt.Sprintf("%s-%05d", strings.Repeat("x", 31), s*len(entries)+i)[:37] + "abc"
			entries[i] = inventory.Entry{
				Ref: object.Ref{
					Key:     object.Key{Kind: "ConfigMap", Namespace: fmt.Sprintf("namespace-%d", s), Name: name},
					Version: "v1",
				},
				Sum: 1, UID: uidOf(i),
			}
		}
		m.Track(fmt.Sprintf("service-%d", s), entries)
	}
	per := float64(heap()-before) / objects
	t.Logf("%.0f bytes an object, %d by its own account", per, m.Bytes()/objects)
	if per > 250 || m.Counts().Total != objects {
		t.Errorf("%.0f bytes an object of %d", per, m.Counts().Total)
	}
	runtime.KeepAlive(m)
}
