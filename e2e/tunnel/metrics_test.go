package tunnel

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/e2e/process"
)

// metrics sums up what a process says of itself, by the metric's name.
func metrics(ctx context.Context, client *http.Client, url, token string) (map[string]float64, error) {
	status, body, err := get(ctx, client, url+"/metrics", token)
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("metrics of %s: %d %w", url, status, err)
	}
	sums := map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		if i := strings.LastIndex(lines.Text(), "} "); i >= 0 {
			value = lines.Text()[i+2:]
		}
		name, _, _ = strings.Cut(name, "{")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			sums[name] += number
		}
	}
	return sums, nil
}

func TestAgentAndTunnelsTellHowTheyAreReached(t *testing.T) {
	t.Parallel()
	h := shared(t)
	client, err := h.client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	await(t, "the agent shows a WebSocket to x1 and one to nginx", func(ctx context.Context) error {
		status, text, err := get(ctx, client, "http://"+h.addr("agent")+"/metrics", "")
		if err == nil && !strings.Contains(text, `fairlead_agent_tunnels{carrier="websocket"} 2`+"\n") {
			err = fmt.Errorf("%d, and it says %s", status,
				regexp.MustCompile(`(?m)^fairlead_agent_tunnels.*$`).FindAllString(text, -1))
		}
		return err
	})
	if status, body, err := get(t.Context(), client, h.base("x2")+"/version", h.token); err != nil ||
		status != http.StatusOK {
		t.Fatal(status, body, err)
	}
	if m, err := metrics(t.Context(), client, h.urls["x2"], h.token); err != nil ||
		m["fairlead_tunnel_relayed_total"] < 1 {
		t.Errorf("x2, which has no session, tells of %v relayed requests, %v", m["fairlead_tunnel_relayed_total"], err)
	}
}

// load is what a process holds at a moment.
type load struct {
	goroutines, streams float64
	descriptors         int
	rss                 int64 // bytes, with what is garbage or free for the next
	live                int64 // bytes that were in use when garbage was last collected, stacks included
	collections         float64
}

func (l load) String() string {
	const mib = 1 << 20
	return fmt.Sprintf("%.0f goroutines, %.0f streams, %d descriptors, %.1f MiB resident, %.1f MiB live",
		l.goroutines, l.streams, l.descriptors, float64(l.rss)/mib, float64(l.live)/mib)
}

func (h *hub) load(ctx context.Context, client *http.Client, part string) (load, error) {
	url := h.urls[part]
	m, err := metrics(ctx, client, url, h.token)
	if err != nil {
		return load{}, err
	}
	pid := h.parts[part].Pid()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return load{}, err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	rss, err := strconv.ParseInt(kib, 10, 64)
	// The next collection is due when the heap has grown by that percentage.
	live := m["go_memstats_next_gc_bytes"]*100/(100+m["go_gc_gogc_percent"]) + m["go_memstats_stack_inuse_bytes"]
	return load{
		goroutines: m["go_goroutines"], streams: m["fairlead_tunnel_streams"], descriptors: openFiles(pid),
		rss: rss << 10, live: int64(live), collections: m["go_gc_duration_seconds_count"],
	}, err
}

func (h *hub) mustLoad(t testing.TB, client *http.Client, part string) load {
	t.Helper()
	l, err := h.load(t.Context(), client, part)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// await polls until ok returns nil.
func await(t testing.TB, what string, ok func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := process.Await(ctx, what, ok); err != nil {
		t.Fatal(err)
	}
}

// openFiles counts what a folder of /proc holds.
func openFiles(pid int) int {
	files, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd")) // gone: none
	return len(files)
}

// bytesRead is what a process has read from files and sockets.
func bytesRead(pid int) int64 {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "io")) // gone: nothing
	_, rest, _ := strings.Cut(string(text), "rchar: ")
	number, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseInt(number, 10, 64)
	return n
}
