package nudge_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/services/distributor/internal/nudge"
)

// calm is a process with nothing else to do.
func calm() float64 { return 0 }

func TestNudgesOfOneClusterAreOneUntilTaken(t *testing.T) {
	t.Parallel()
	h := nudge.New(calm)
	a, again, other := h.Watch("a"), h.Watch("a"), h.Watch("b")
	edge := map[string]string{"a": "", "nobody": ""}
	if told := h.Nudge(edge); told != 2 {
		t.Errorf("told %d", told)
	}
	for range 100 {
		if h.Nudge(edge) != 0 {
			t.Fatal("told who has not taken the last one")
		}
	}
	for _, w := range []*nudge.Watcher{a, again} {
		<-w.C()
		if e, _ := w.Take(); e != nudge.Nudge {
			t.Error("taken something else")
		}
	}
	select {
	case <-a.C():
		t.Error("a second nudge")
	case <-other.C():
		t.Error("another cluster's nudge")
	default:
	}
	if h.Nudge(edge) != 2 {
		t.Error("not told again")
	}
	a.Close()
	a.Close()
	again.Close()
	if h.Nudge(edge) != 0 || h.Watchers() != 1 {
		t.Errorf("%d watchers", h.Watchers())
	}
}

func TestEveryWatcherHasItsBeatsAndANudgeIsNotLostAmongThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := nudge.New(calm)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		var all []*nudge.Watcher
		for range 200 {
			all = append(all, h.Watch("a"))
		}
		idle := h.Watch("b")
		for range 3 {
			<-time.After(nudge.Beat)
			synctest.Wait()
			for i, w := range all {
				select {
				case <-w.C():
				default:
					t.Fatalf("watcher %d has no beat", i)
				}
				if e, _ := w.Take(); e != nudge.Alive {
					t.Fatalf("watcher %d: %b", i, e)
				}
			}
		}
		if h.Nudge(map[string]string{"b": ""}) != 1 {
			t.Error("not told for a beat that it has not taken")
		}
		h.ReportTurn("b")
		<-idle.C()
		if e, _ := idle.Take(); e != nudge.Nudge|nudge.Alive|nudge.Report {
			t.Errorf("told %b: the nudge, or the turn to report, is lost", e)
		}
		for _, w := range append(all, idle) {
			w.Close()
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNudgeCarriesTheTraceOfTheLastCommit(t *testing.T) {
	t.Parallel()
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333"
	h := nudge.New(calm)
	w := h.Watch("a")
	defer w.Close()
	for _, told := range []string{trace + "1-01", trace + "2-01", "", trace + "3-00"} {
		h.Nudge(map[string]string{"a": told})
	}
	if e, got := w.Take(); e != nudge.Nudge || got != trace+"2-01" {
		t.Errorf("got %b %q", e, got)
	}
	h.Nudge(map[string]string{"a": ""})
	if _, got := w.Take(); got != "" {
		t.Errorf("a nudge without a trace has %q", got)
	}
}

// A busy process leaves time between two nudges of an agent, and loses none. The first one after a while is told at
// once.
func TestNudgesUnderPressureKeepADistance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pressure := 0.5 // five seconds between two
		h := nudge.New(func() float64 { return pressure })
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		w := h.Watch("a")
		nudges := func(over time.Duration) (n int) {
			for end := time.After(over); ; {
				select {
				case <-w.C():
					if e, _ := w.Take(); e&nudge.Nudge != 0 {
						n++
					}
				case <-end:
					return n
				}
			}
		}
		nudges(time.Minute)
		if h.Nudge(map[string]string{"a": ""}) != 1 || nudges(100*time.Millisecond) != 1 {
			t.Error("the first nudge after a while waits")
		}
		for range 90 {
			h.Nudge(map[string]string{"a": ""})
			<-time.After(time.Millisecond)
		}
		if n := nudges(4 * time.Second); n != 0 {
			t.Errorf("%d nudges within the distance", n)
		}
		if n := nudges(time.Minute); n != 1 {
			t.Errorf("%d nudges after it", n)
		}
		h.Nudge(map[string]string{"a": ""})
		nudges(100 * time.Millisecond)
		h.Nudge(map[string]string{"a": ""})
		pressure = 0 // it is over
		if n := nudges(time.Second); n != 1 {
			t.Errorf("%d nudges once the pressure is over", n)
		}
		w.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Many that are nudged at once would all ask at once: the others are nudged as these ask, first come first, and also
// when these do not ask.
func TestNudgesWaitUntilOthersHaveAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := nudge.New(calm)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		clusters, watchers := map[string]string{}, map[string]*nudge.Watcher{}
		for n := range 3000 {
			name := strconv.Itoa(n)
			clusters[name], watchers[name] = "", h.Watch(name)
		}
		taken := func() (names []string) {
			for name, w := range watchers {
				if e, _ := w.Take(); e&nudge.Nudge != 0 {
					names = append(names, name)
				}
			}
			return names
		}
		if told := h.Nudge(clusters); told != len(clusters) {
			t.Errorf("told %d", told)
		}
		first := taken()
		if len(first) == 0 || len(first) > 1100 {
			t.Fatalf("%d are nudged at once", len(first))
		}
		if h.Nudge(map[string]string{first[0]: ""}); len(taken()) != 0 {
			t.Error("a cluster is nudged before those that wait")
		}
		for _, name := range first[:100] {
			h.Asked(name)
		}
		if n := len(taken()); n != 100 {
			t.Errorf("%d are nudged when 100 have asked", n)
		}
		watchers[first[200]].Close()
		delete(watchers, first[200])
		if n := len(taken()); n != 1 {
			t.Errorf("%d are nudged when one is gone", n)
		}
		all := 0
		for range 60 {
			<-time.After(time.Second)
			synctest.Wait()
			all += len(taken())
		}
		if want := len(clusters) + 1 - len(first) - 101; all != want {
			t.Errorf("%d of %d are nudged when nobody asks", all, want)
		}
		for _, w := range watchers {
			w.Close()
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Agents that come at once ask in the order in which they came, as those before them have asked.
func TestAgentsThatComeAtOnceAskOneAfterTheOther(t *testing.T) {
	t.Parallel()
	h := nudge.New(func() float64 { return 1 }) // all pressure that there can be
	var began, wait []*nudge.Watcher
	for n := range 3000 {
		w := h.Watch(strconv.Itoa(n))
		if w.Begin() {
			began = append(began, w)
		} else {
			wait = append(wait, w)
		}
	}
	if len(began) == 0 || len(began) > 1100 {
		t.Fatalf("%d ask at once", len(began))
	}
	if told := h.Nudge(map[string]string{strconv.Itoa(len(began)): ""}); told != 0 {
		t.Error("one that waits for its turn is nudged twice")
	}
	for n := range 100 {
		h.Asked(strconv.Itoa(n))
		if e, _ := wait[n].Take(); e&nudge.Nudge == 0 {
			t.Fatalf("the %dth is not nudged when %d have asked", n, n+1)
		}
	}
	for _, w := range wait[100:] {
		if e, _ := w.Take(); e != 0 {
			t.Fatal("more are nudged than have asked")
		}
	}
}
