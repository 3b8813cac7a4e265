package paths

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/e2e/gitcache"
	"fairlead.dev/e2e/stack"
)

const (
	// countMillis is one measurement of what the kernel counts anyway.
	countMillis = 3000
	// traceMillis is one by strace, which slows a process down a lot.
	traceMillis = 2000
)

// Counts tells what a GET of 2 KiB causes in each process: threads that wake up, bytes, and system calls. Counts depend
// on the load of a machine much less than times do. System calls are told where strace is on the PATH and may trace.
func Counts(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) (err error) {
	dir, err = os.MkdirTemp(dir, "counts-")
	if err != nil {
		return err
	}
	t, err := startPaths(ctx, bins, dir)
	defer func() { err = errors.Join(err, t.stop()) }()
	if err != nil {
		return err
	}
	parts := t.processes().without("load")
	for _, name := range []string{"fairlead", "yamux-proxy", "yamux"} {
		for _, concurrency := range []int{1, 16} {
			if err := t.count(ctx, name, parts[name], concurrency, stdout); err != nil {
				return err
			}
		}
	}
	return nil
}

// count warms a path up, counts what its processes do for GETs, and then has each traced in turn.
func (t *paths) count(ctx context.Context, path string, parts []running, concurrency int, stdout io.Writer) error {
	gets := func(millis int) (result, error) {
		return t.do(path, job{Kind: "get", Concurrency: concurrency, Millis: millis})
	}
	if _, err := gets(millis); err != nil {
		return err
	}
	allocated, err := t.allocated(ctx, path)
	if err != nil {
		return err
	}
	before := make([]usage, len(parts))
	for i, p := range parts {
		before[i] = usageOf(p.pid)
	}
	r, err := gets(countMillis)
	if err != nil {
		return err
	}
	time.Sleep(settle)
	objects, err := allocated(r.Requests)
	if err != nil {
		return err
	}
	if objects != "" {
		fmt.Fprintf(stdout, "%-12s c%-2d allocations per GET: %s\n", path, concurrency, objects)
	}
	for i, p := range parts {
		fmt.Fprintf(stdout, "%-12s c%-2d %-8s per GET: %s\n", path, concurrency, p.name, usageOf(p.pid).since(before[i], r.Requests))
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		fmt.Fprintln(stdout, "System calls are not told: there is no strace.")
		return nil
	}
	for _, p := range parts {
		calls, requests, err := t.trace(ctx, strace, p, func() (result, error) { return gets(traceMillis) })
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%-12s c%-2d %-8s calls per GET: %s\n", path, concurrency, p.name, perGET(calls, requests))
	}
	return nil
}

// allocated returns what tells the objects per GET that the processes of Fairlead have allocated since. Those of the
// peers are not told.
func (t *paths) allocated(ctx context.Context, path string) (func(requests int) (string, error), error) {
	if path != "fairlead" {
		return func(int) (string, error) { return "", nil }, nil
	}
	names := []string{"hub", "agent", "console"}
	read := func() (counts [3]float64, err error) {
		var errs [3]error
		counts[0], errs[0] = t.mallocs(ctx, t.hub.url)
		errs[1] = t.agents[0].ask(mallocsQuestion, &counts[1])
		counts[2], errs[2] = t.mallocs(ctx, t.hub.console)
		return counts, errors.Join(errs[:]...)
	}
	first, err := read()
	if err != nil {
		return nil, err
	}
	before, err := read()
	return func(requests int) (string, error) {
		after, err := read()
		told := make([]string, len(names))
		for i, name := range names {
			asking := before[i] - first[i] // to tell the count allocates, too
			told[i] = fmt.Sprintf("%s %.1f", name, (after[i]-before[i]-asking)/float64(requests))
		}
		return strings.Join(told, ", "), err
	}, err
}

// mallocs is how many objects a service of the hub has allocated.
func (t *paths) mallocs(ctx context.Context, url string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+t.hub.user)
	resp, err := t.hub.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "go_memstats_mallocs_total "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s: /metrics (%s) does not tell the allocations", url, resp.Status)
}

// usage is what the kernel counts of a process.
type usage struct {
	wakeups, preemptions int64 // of its threads; wakeups also after naps of microseconds, in which the runtime looks for work
	reads, writes        int64
	bytesIn, bytesOut    int64
	cpu                  time.Duration
}

func usageOf(pid int) usage {
	u := usage{cpu: gitcache.CPU(pid)}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, path := range threads {
		u.wakeups += field(path, "voluntary_ctxt_switches:")
		u.preemptions += field(path, "nonvoluntary_ctxt_switches:")
	}
	totals := fmt.Sprintf("/proc/%d/io", pid)
	u.reads, u.writes = field(totals, "syscr:"), field(totals, "syscw:")
	u.bytesIn, u.bytesOut = field(totals, "rchar:"), field(totals, "wchar:")
	return u
}

// field returns the number behind a name at the beginning of a line of a file; 0: there is none, or the thread has
// ended.
func field(path, name string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
			return n
		}
	}
	return 0
}

func (u usage) since(before usage, requests int) string {
	per := func(now, then int64) float64 { return float64(now-then) / float64(requests) }
	return fmt.Sprintf("%.0f us of CPU, %.2f wakeups, %.2f preemptions, %.2f reads, %.2f writes, %.0f bytes in, %.0f bytes out, %d GETs",
		per(u.cpu.Microseconds(), before.cpu.Microseconds()),
		per(u.wakeups, before.wakeups), per(u.preemptions, before.preemptions),
		per(u.reads, before.reads), per(u.writes, before.writes),
		per(u.bytesIn, before.bytesIn), per(u.bytesOut, before.bytesOut), requests)
}

// trace counts the system calls of a process during GETs, and returns how many GETs there were.
func (t *paths) trace(ctx context.Context, strace string, p running, gets func() (result, error)) (calls map[string]int64, requests int, err error) {
	out := filepath.Join(t.dir, "calls")
	_ = os.Remove(out) // that of the process before
	cmd := exec.CommandContext(ctx, strace, "-f", "-c", "-qq", "-o", out, "-p", strconv.Itoa(p.pid))
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	time.Sleep(settle) // strace attaches to all threads
	r, err := gets()
	err = errors.Join(err, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait() // its end by the signal
	if err != nil {
		return nil, 0, err
	}
	if calls, err = readCalls(out); err == nil && len(calls) == 0 {
		err = fmt.Errorf("strace did not trace %s: run the bench as root, or without strace on the PATH", p.name)
	}
	return calls, r.Requests, err
}

// readCalls reads the table of strace -c: time, seconds, microseconds per call, calls, maybe errors, and the name.
func readCalls(path string) (map[string]int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	calls := map[string]int64{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		columns := strings.Fields(lines.Text())
		if len(columns) < 5 || columns[len(columns)-1] == "total" {
			continue
		}
		if n, err := strconv.ParseInt(columns[3], 10, 64); err == nil {
			calls[columns[len(columns)-1]] += n
		}
	}
	return calls, nil
}

// perGET tells the calls of which a GET causes a tenth at least, the most frequent first.
func perGET(calls map[string]int64, requests int) string {
	names := slices.SortedFunc(maps.Keys(calls), func(a, b string) int { return int(calls[b] - calls[a]) })
	var all int64
	var told []string
	for _, name := range names {
		all += calls[name]
		if per := float64(calls[name]) / float64(requests); per >= 0.1 {
			told = append(told, fmt.Sprintf("%s %.2f", name, per))
		}
	}
	return fmt.Sprintf("%s (all %.2f, %d GETs)", strings.Join(told, ", "), float64(all)/float64(requests), requests)
}
