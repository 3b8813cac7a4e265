package paths

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/stack"
)

// cpuMillis is one measurement: the kernel counts CPU time in steps of 10 ms.
const cpuMillis = 5000

// CPU measures the CPU time that a GET takes of each process of each path. A crowded machine changes it much less than
// how long the GET takes.
func CPU(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) (err error) {
	dir, err = os.MkdirTemp(dir, "cpu-")
	if err != nil {
		return err
	}
	t, err := startPaths(ctx, bins, dir)
	defer func() { err = errors.Join(err, t.stop()) }()
	if err != nil {
		return err
	}
	names := []string{"fairlead", "yamux", "yamux-proxy", "http-connect", "grpc", "konnectivity-proxy"}
	parts := t.processes()
	seen := samples{}
	for range 1 + 3 { // the first warms up
		for _, name := range names {
			for _, concurrency := range []int{1, 16} {
				before := cpuOf(parts[name])
				r, err := t.do(name, job{Kind: "get", Concurrency: concurrency, Millis: cpuMillis})
				if err != nil {
					return err
				}
				for i, after := range cpuOf(parts[name]) {
					seen.add(fmt.Sprintf("c%d %s", concurrency, parts[name][i].name), name, float64((after-before[i]).Microseconds())/float64(r.Requests))
				}
			}
		}
	}
	for _, name := range names {
		for _, concurrency := range []int{1, 16} {
			fmt.Fprintf(stdout, "%-18s c%-2d CPU per GET:", name, concurrency)
			for _, p := range parts[name] {
				fmt.Fprintf(stdout, "  %s %.0f us", p.name, median(seen[fmt.Sprintf("c%d %s", concurrency, p.name)][name][1:]))
			}
			fmt.Fprintln(stdout)
		}
	}
	return nil
}

// running is a process of a path.
type running struct {
	name string
	pid  int
}

// processes are those that a request passes, by path.
type processes map[string][]running

// without returns the processes of other names.
func (p processes) without(names ...string) processes {
	left := processes{}
	for path, all := range p {
		left[path] = slices.DeleteFunc(slices.Clone(all), func(r running) bool { return slices.Contains(names, r.name) })
	}
	return left
}

// processes are the tunnel's two ends, and what is the same for all.
func (t *paths) processes() processes {
	byName := map[string]int{}
	for _, p := range t.parts {
		byName[p.Name] = p.Pid()
	}
	all := processes{
		"fairlead":    {{"hub", t.hub.tunnel.Pid()}, {"agent", t.agents[0].process.Pid()}, {"console", t.hub.parts[0].Pid()}},
		"yamux":       {{"hub", byName["yamux"]}, {"agent", byName["yamux-agent.yamux"]}},
		"yamux-proxy": {{"hub", byName["yamux-proxy"]}, {"agent", byName["yamux-agent.yamux-proxy"]}},
	}
	for _, mode := range []string{"http-connect", "grpc"} {
		all[mode] = []running{{"hub", byName["konnectivity-server."+mode]}, {"agent", byName["konnectivity-agent."+mode]}}
	}
	all["konnectivity-proxy"] = append([]running{{"proxy", byName["konnectivity-proxy"]}}, all["http-connect"]...)
	for name := range all {
		all[name] = append(all[name], running{"backend", byName["backend"]}, running{"load", t.loader.process.Pid()})
	}
	return all
}

func cpuOf(parts []running) []time.Duration {
	times := make([]time.Duration, len(parts))
	for i, p := range parts {
		times[i] = gitcache.CPU(p.pid)
	}
	return times
}
