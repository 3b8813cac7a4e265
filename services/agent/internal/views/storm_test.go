package views

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/rest"

	"fairlead.dev/platform/clusterview"
	"fairlead.dev/platform/longform"
	"fairlead.dev/services/agent/internal/views/storm"
)

// stormy is a view of an API server with so many pods, which is followed until the test ends.
func stormy(t *testing.T, pods int) (*View, *storm.Server) {
	t.Helper()
	api := storm.New(pods)
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	v := viewOn(t, &rest.Config{Host: server.URL})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = v.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return v, api
}

// reach waits until a look at the view finds what it wants.
func reach(t *testing.T, v *View, what string, look func() bool) {
	t.Helper()
	deadline := time.After(convergence)
	for !look() {
		select {
		case <-v.Changed():
		case <-deadline:
			sections, _ := v.Sections()
			t.Fatalf("%s: the view has %v", what, sections)
		}
	}
}

// figure is one of the view, -1 while it is unknown.
func figure(v *View, section, name string) int64 {
	sections, _ := v.Sections()
	for _, s := range sections {
		if n, ok := s.GetFigures()[name]; ok && s.GetName() == section {
			return n
		}
	}
	return -1
}

func podSample(t *testing.T, v *View) uint32 {
	t.Helper()
	return sectionOf(t, v, clusterview.Pods).GetSample()
}

func size(v *View) (sum int) {
	sections, _ := v.Sections()
	for _, s := range sections {
		sum += proto.Size(s)
	}
	return sum
}

// live is the memory in use, after what is not has been freed.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func near(got, want, percent int64) bool {
	return got*100 >= want*(100-percent) && got*100 <= want*(100+percent)
}

// A namespace with 100,000 pods costs no more than its bound; the view says that it is a sample, and counts exactly
// again when the pods are gone.
func TestAHundredThousandPodsAreASample(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	longform.Only(t, "100,000 pods")
	const pods, few, mostMiB = 100_000, 1000, 40
	before := live()
	v, api := stormy(t, pods)
	reach(t, v, "all pods", func() bool { return near(figure(v, clusterview.Pods, "total"), pods, 5) })
	if used := (live() - before) >> 20; used > mostMiB {
		t.Errorf("%d pods take %d MiB", pods, used)
	} else {
		t.Logf("%d pods take %d MiB", pods, used)
	}
	if n := podSample(t, v); n < 2 {
		t.Errorf("the view does not say that it is a sample: %d", n)
	}
	if n := figure(v, clusterview.Pods, "not_ready"); !near(n, pods/100, 30) {
		t.Errorf("%d pods are not ready, want about %d", n, pods/100)
	}
	if n := size(v); n > maxView {
		t.Errorf("the view has %d bytes", n)
	}
	api.SetPods(few)
	for i := few; i < pods; i++ {
		api.Remove(t.Context(), i)
	}
	reach(t, v, "few pods", func() bool {
		return figure(v, clusterview.Pods, "total") == few && podSample(t, v) == 1
	})
}

// A thousand warnings a second for five minutes: the records, the groups and the view stay within their bounds.
func TestAStormOfWarningsIsBounded(t *testing.T) { //nolint:paralleltest // as above
	longform.Only(t, "60,000 events")
	const events, objects, mostMiB = 60_000, 20_000, 40
	before := live()
	v, api := stormy(t, 0)
	if err := api.Stands(t.Context(), "events", 1); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i := range events {
		api.Warn(t.Context(), fmt.Sprint("event-", i), i%objects, 1, now)
	}
	reach(t, v, "all warnings", func() bool { return near(figure(v, clusterview.Warnings, "hour"), events, 20) })
	if used := (live() - before) >> 20; used > mostMiB {
		t.Errorf("%d warnings take %d MiB", events, used)
	} else {
		t.Logf("%d warnings take %d MiB", events, used)
	}
	s := sectionOf(t, v, clusterview.Warnings)
	if s.GetSample() < 2 || s.GetFigures()["groups"] > maxGroups || len(s.GetRows()) > maxWarningRows ||
		s.GetFigures()["others"] == 0 || size(v) > maxView {
		t.Errorf("%d bytes, sample %d, %d rows, figures %v", size(v), s.GetSample(), len(s.GetRows()), s.GetFigures())
	}
}
