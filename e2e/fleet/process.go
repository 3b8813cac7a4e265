package fleet

import (
	"context"
	"os"
	"slices"
	"time"

	"fairlead.dev/e2e/gitcache"
)

// Usage is what a process took over a time.
type Usage struct {
	Name        string
	Cores       float64 // on average
	CPU         time.Duration
	RSSMiB      int64 // at the end
	Descriptors int   // at the end
	HeapMiB     int64 // in use, live or not yet collected; 0: not known
	Goroutines  int64 // 0: not known
}

// meter measures processes from begin to end.
type meter struct {
	begin time.Time
	pids  map[string]int
	names []string
	cpu   map[string]time.Duration
}

func (r *Run) meter() *meter {
	m := &meter{begin: time.Now(), pids: map[string]int{}, cpu: map[string]time.Duration{}}
	add := func(name string, pid int) {
		m.names = append(m.names, name)
		m.pids[name], m.cpu[name] = pid, gitcache.CPU(pid)
	}
	for _, name := range hubParts() {
		if p := r.hub.parts[name]; p != nil {
			add(name, p.Pid())
		}
	}
	for i, pid := range r.simulators.pids {
		add(simulatorName(i), pid)
	}
	add("fleet", os.Getpid())
	return m
}

// pause takes in what a process used that is about to be killed.
func (m *meter) pause(name string) { m.cpu[name] -= gitcache.CPU(m.pids[name]) }

// resume measures the process that came in its place.
func (m *meter) resume(name string, pid int) { m.pids[name] = pid }

func simulatorName(i int) string { return "simulator-" + string(rune('0'+i)) }

func (m *meter) end(ctx context.Context, h *hub) []Usage {
	took := time.Since(m.begin)
	var list []Usage
	for _, name := range m.names {
		pid := m.pids[name]
		used := gitcache.CPU(pid) - m.cpu[name]
		u := Usage{
			Name: name, CPU: used, Cores: used.Seconds() / took.Seconds(), RSSMiB: gitcache.RSS(pid) >> 20, Descriptors: gitcache.Descriptors(pid),
		}
		if slices.Contains(hubParts(), name) {
			heap, _ := h.api.metric(ctx, h.urls[name], "go_memstats_heap_inuse_bytes") // not known: 0
			routines, _ := h.api.metric(ctx, h.urls[name], "go_goroutines")
			u.HeapMiB, u.Goroutines = int64(heap)>>20, int64(routines)
		}
		list = append(list, u)
	}
	return list
}
