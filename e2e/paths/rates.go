// Package paths measures the ways over which a request comes from a user to an API server: directly, through
// Fairlead's tunnel, and through its peers, in turn in one run behind the same backend. Each part of each way is
// a process of its own; the peers, the backend and the load are in e2e/tunnelbench.
package paths

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.dev/e2e/stack"
)

const (
	rounds    = 7
	millis    = 1500
	bulkBytes = 256 << 20
	// settle is twice the time in which a tunnel hands its audit trail on.
	settle = time.Second / 2
)

// All measures everything.
func All(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) error {
	return errors.Join(Rates(ctx, bins, dir, stdout), Sessions(ctx, bins, dir, stdout))
}

// samples are what each path gave in each round, by what was measured.
type samples map[string]map[string][]float64

func (s samples) add(what, path string, value float64) {
	if s[what] == nil {
		s[what] = map[string][]float64{}
	}
	s[what][path] = append(s[what][path], value)
}

func (s samples) median(what, path string) float64 { return median(s[what][path]) }

// ratios are those of the rounds: what slows a round down slows both.
func (s samples) ratios(what, path, to string) []float64 {
	var all []float64
	for i, v := range s[what][path] {
		all = append(all, v/s[what][to][i])
	}
	return all
}

// report prints a metric: the median of the rounds, and the least and the most of them. The format is for a number,
// such as %.2f.
func report(stdout io.Writer, metric, format, unit string, values []float64) {
	verbs := fmt.Sprintf("BENCH tunnel.%%s %s %%s (%s to %s in %%d rounds)\n", format, format, format)
	fmt.Fprintf(stdout, verbs, metric, median(values), unit, slices.Min(values), slices.Max(values), len(values))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Rates measures all paths in turn, round after round.
func Rates(ctx context.Context, bins stack.Binaries, dir string, stdout io.Writer) (err error) {
	dir, err = os.MkdirTemp(dir, "rates-")
	if err != nil {
		return err
	}
	t, err := startPaths(ctx, bins, dir)
	defer func() { err = errors.Join(err, t.stop()) }()
	if err != nil {
		return err
	}
	names := []string{"direct", "fairlead", "yamux", "yamux-proxy", "http-connect", "grpc", "konnectivity-proxy"}
	t.carriers = t.processes().without("backend", "load")
	seen := samples{}
	for round := range rounds + 1 {
		if round == 1 {
			seen = samples{} // the first warms up
		}
		for i := range names {
			name := names[(i+round)%len(names)]
			if err := t.measure(name, seen); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		fmt.Fprintf(stdout, "%-18s c1 p50 %5.0f us, c16 %6.0f req/s, c16 CPU per GET %4.0f us, bulk %5.0f MB/s\n", name,
			seen.median("c1", name), seen.median("c16", name), seen.median("cpu", name), seen.median("bulk", name))
	}
	// The better of konnectivity's modes is what counts.
	best := func(what string) []float64 {
		connect, grpc := seen.ratios(what, "fairlead", "http-connect"), seen.ratios(what, "fairlead", "grpc")
		if median(grpc) < median(connect) {
			return grpc
		}
		return connect
	}
	added := make([]float64, 0, rounds)
	for i, v := range seen["c1"]["fairlead"] {
		added = append(added, v-seen["c1"]["direct"][i])
	}
	report(stdout, "get_c1_added_us", "%.0f", "us", added)
	report(stdout, "get_c1_vs_yamux_with_proxy", "%.2f", "x", seen.ratios("c1", "yamux-proxy", "fairlead"))
	report(stdout, "cpu_per_get_vs_yamux_with_proxy", "%.2f", "x", seen.ratios("cpu", "fairlead", "yamux-proxy"))
	report(stdout, "get_c16_vs_yamux", "%.2f", "x", seen.ratios("c16", "fairlead", "yamux"))
	report(stdout, "get_c16_vs_yamux_with_proxy", "%.2f", "x", seen.ratios("c16", "fairlead", "yamux-proxy"))
	report(stdout, "get_c16_vs_konnectivity", "%.2f", "x", best("c16"))
	report(stdout, "get_c16_vs_konnectivity_with_proxy", "%.2f", "x", seen.ratios("c16", "fairlead", "konnectivity-proxy"))
	report(stdout, "bulk_vs_direct", "%.2f", "x", seen.ratios("bulk", "fairlead", "direct"))
	report(stdout, "bulk_vs_yamux", "%.2f", "x", seen.ratios("bulk", "fairlead", "yamux"))
	report(stdout, "bulk_vs_konnectivity", "%.2f", "x", best("bulk"))
	return errors.Join(t.stalled(stdout), t.redis(ctx, stdout), t.far(stdout))
}

func (t *paths) measure(name string, seen samples) error {
	one, err := t.do(name, job{Kind: "get", Concurrency: 1, Millis: millis})
	if err != nil {
		return err
	}
	before := cpuOf(t.carriers[name])
	many, err := t.do(name, job{Kind: "get", Concurrency: 16, Millis: millis})
	if err != nil {
		return err
	}
	// The audit trail of these GETs gets to the console in batches: it is a part of what they cost.
	time.Sleep(settle)
	var spent time.Duration
	for i, after := range cpuOf(t.carriers[name]) {
		spent += after - before[i]
	}
	bulk, err := t.do(name, job{Kind: "bulk", Bytes: bulkBytes})
	if err != nil {
		return err
	}
	seen.add("c1", name, one.P50Micros)
	seen.add("cpu", name, float64(spent.Microseconds())/float64(many.Requests))
	seen.add("c16", name, many.PerSecond)
	seen.add("bulk", name, bulk.MBs)
	return nil
}

// stalled measures GETs beside downloads of the same session that nobody reads.
func (t *paths) stalled(stdout io.Writer) error {
	seen := samples{}
	for range rounds {
		for what, n := range map[string]int{"free": 0, "stalled": 30} {
			r, err := t.do("fairlead", job{Kind: "get", Concurrency: 16, Millis: millis, Stalled: n})
			if err != nil {
				return err
			}
			seen.add("c16", what, r.PerSecond)
		}
	}
	report(stdout, "get_beside_30_stalled", "%.2f", "x", seen.ratios("c16", "stalled", "free"))
	return nil
}

// redis counts what the tunnel asks Redis for because of requests, beyond what it does anyway.
func (t *paths) redis(ctx context.Context, stdout io.Writer) error {
	const window = 10 * time.Second
	count := func(during func() error) (int, error) {
		before, err := redisCommands(ctx, t.hub.redis.URL())
		if err != nil {
			return 0, err
		}
		if err := during(); err != nil {
			return 0, err
		}
		after, err := redisCommands(ctx, t.hub.redis.URL())
		return after - before, err
	}
	idle, err := count(func() error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(window):
			return nil
		}
	})
	if err != nil {
		return err
	}
	var r result
	busy, err := count(func() (err error) {
		r, err = t.do("fairlead", job{Kind: "get", Concurrency: 16, Millis: int(window.Milliseconds())})
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Redis: %d commands in %v without a request, %d with %d\n", idle, window, busy, r.Requests)
	fmt.Fprintf(stdout, "BENCH tunnel.redis_ops_per_request %.4f ops\n", float64(max(0, busy-idle))/float64(r.Requests))
	return nil
}

// redisCommands is how many commands the server has answered.
func redisCommands(ctx context.Context, url string) (int, error) {
	addr := strings.TrimSuffix(strings.TrimPrefix(url, "redis://"), "/0")
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "INFO stats\r\nQUIT\r\n"); err != nil {
		return 0, err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(text), "total_commands_processed:")
	if !ok {
		return 0, fmt.Errorf("no count of commands in %q", text)
	}
	number, _, _ := strings.Cut(rest, "\r")
	return strconv.Atoi(number)
}

// far measures one download over a line with a round trip of 100 ms.
func (t *paths) far(stdout io.Writer) error {
	var all []float64
	for range 5 {
		r, err := t.do("far", job{Kind: "bulk", Bytes: bulkBytes})
		if err != nil {
			return err
		}
		all = append(all, r.MBs)
	}
	report(stdout, "one_stream_mbs_at_100ms_rtt", "%.1f", "MB/s", all)
	return nil
}
