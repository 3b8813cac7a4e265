package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/retry"
)

// perService is the most objects that one of the services has which the agent's memory is measured with.
const perService = 5000

// Memory measures how much the agent takes with ever more objects: at rest, and at its peak while they came.
func Memory(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) (err error) {
	b, err := open(ctx, bins, dir, stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	have := 0
	var live []float64 // bytes of heap, by size
	sizes := []int{1000, 10_000, 100_000}
	for _, size := range sizes {
		if err := resetPeak(b.world.Agent.Pid()); err != nil {
			return err
		}
		for ; have < size; have += min(perService, size-have) {
			name := "memory-" + strconv.Itoa(have)
			begin := time.Now()
			if err := b.world.Deploy(ctx, name, Light(name, min(perService, size-have))); err != nil {
				return err
			}
			b.say("%d objects: %s settled after %v", have+min(perService, size-have), name, time.Since(begin).Round(time.Second))
		}
		peak := status(b.world.Agent.Pid(), "VmHWM:")
		heap, err := b.rest(ctx)
		if err != nil {
			return err
		}
		live = append(live, heap)
		rss := status(b.world.Agent.Pid(), "VmRSS:")
		b.say("BENCH agent.rss_mib_%dk %.0f MiB", size/1000, rss)
		b.say("BENCH agent.peak_vs_rss_%dk %.2f x", size/1000, peak/rss)
	}
	bytes, err := b.world.Metric(ctx, "fairlead_agent_memory_bytes")
	if err != nil {
		return err
	}
	objects, err := b.world.Metric(ctx, "fairlead_agent_objects", `state="all"`)
	if err != nil {
		return err
	}
	b.say("BENCH agent.heap_bytes_per_object %.0f B", bytes/objects)
	b.say("BENCH agent.live_heap_bytes_per_object %.0f B", (live[2]-live[1])/float64(sizes[2]-sizes[1]))
	idle := gitcache.CPU(b.world.Agent.Pid())
	const quiet = time.Minute
	mark := b.world.Proxy.Mark()
	if !retry.Sleep(ctx, quiet) {
		return context.Cause(ctx)
	}
	b.say("BENCH agent.idle_cores_100k %.4f cores", (gitcache.CPU(b.world.Agent.Pid())-idle).Seconds()/quiet.Seconds())
	b.say("BENCH agent.idle_requests_100k %d requests", len(b.world.Proxy.Since(mark)))
	return nil
}

// calm is how long the agent takes at most to give back what it needed for the work before: see platform/process.
const calm = 90 * time.Second

// rest waits until the agent's memory has settled. rest returns the bytes that are on the agent's heap.
func (b *bench) rest(ctx context.Context) (float64, error) {
	if !retry.Sleep(ctx, calm) {
		return 0, context.Cause(ctx)
	}
	return b.world.Metric(ctx, "go_memstats_heap_alloc_bytes")
}

// resetPeak makes the kernel forget a process' peak of resident memory.
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o600)
}

// status reads a line of /proc/<pid>/status that is in kB, in MiB.
func status(pid int, line string) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), line)
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseFloat(kib, 64)
	return n / 1024
}
