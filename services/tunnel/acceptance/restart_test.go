package acceptance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/platform/client"
	"fairlead.dev/platform/coordination/redistest"
	"fairlead.dev/platform/freeport"
	"fairlead.dev/platform/identity"
	"fairlead.dev/platform/identity/identitytest"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/process"
	"fairlead.dev/platform/subprocess"
	"fairlead.dev/platform/telemetry"
	"fairlead.dev/platform/tunnelclient"
	"fairlead.dev/services/tunnel"
)

// asTunnel in the environment makes a tunnel of the test's program.
const asTunnel = "FAIRLEAD_TEST_AS_TUNNEL"

func runTunnel() {
	var cfg tunnel.Config
	process.Main("tunnel", &cfg, func(log *slog.Logger, tel *telemetry.Telemetry) (process.Service, error) {
		return tunnel.New(cfg, tunnel.Deps{Log: log, Telemetry: tel})
	})
}

// process starts a replica of the tunnel as a process of its own.
func (h *hub) process(redis, dir string) (*hub, *subprocess.Process) {
	h.t.Helper()
	addresses, err := freeport.Addresses(1)
	if err != nil {
		h.t.Fatal(err)
	}
	at, c := addresses[0], h.config
	cmd := exec.Command(os.Args[0], "--listen", at, "--data-dir", dir, "--console-url", c.ConsoleURL, "--hub-ca-file", c.HubCAFile,
		"--hub-secret-file", c.HubSecretFile, "--redis-url", redis, "--tls-cert", c.Server.CertFile,
		"--tls-key", c.Server.KeyFile, "--drain-timeout", "60s")
	more := &hub{console: h.console, t: h.t, ca: h.ca, config: c, url: "https://" + at, logs: &syncBuffer{}}
	cmd.Env = append(os.Environ(), asTunnel+"=1")
	cmd.Stdout, cmd.Stderr = more.logs, more.logs
	p, err := subprocess.Start(cmd)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(p.Kill)
	h.t.Cleanup(func() {
		if h.t.Failed() {
			h.t.Logf("the tunnel at %s:\n%s", at, more.logs)
		}
	})
	more.await("the tunnel is ready", more.ready)
	return more, p
}

func (h *hub) ready() bool {
	resp, err := h.client().Get(h.url + "/readyz")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// balancer is one address for all replicas, as a load balancer's that looks at whether they are ready.
type balancer struct {
	url string

	mu      sync.Mutex // guards what follows
	targets []string
	turn    int
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{url: "https://" + l.Addr().String()}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); _ = l.Close(); running.Wait() })
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { b.carry(ctx, conn) })
		}
	})
	return b
}

func (b *balancer) set(targets ...*hub) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = nil
	for _, h := range targets {
		b.targets = append(b.targets, h.url[len("https://"):])
	}
}

func (b *balancer) carry(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	b.mu.Lock()
	b.turn++
	at := b.targets[b.turn%len(b.targets)]
	b.mu.Unlock()
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
	if err != nil {
		return
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close(); _ = to.Close() })()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{conn, to}, {to, conn}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
}

// eventAPI is an API server whose watches go on where they ended, and whose shells say everything back.
func eventAPI(t *testing.T) *httptest.Server {
	t.Helper()
	shell := echoServer(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case muxhttp.IsUpgrade(r.Header):
			resp := &http.Response{StatusCode: 101, Header: http.Header{"Upgrade": r.Header["Upgrade"]}, Body: shell()}
			_, _, _ = muxhttp.Splice(r.Context(), w, resp)
		case r.URL.Query().Get("watch") == "true":
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ; n++ {
				if _, err := fmt.Fprintf(w, "{\"n\":%d}\n", n); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-tick.C:
				}
			}
		default:
			_, _ = io.WriteString(w, "answer")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (h *hub) agent(api *httptest.Server, cluster string) {
	h.t.Helper()
	kube, err := url.Parse(api.URL)
	if err != nil {
		h.t.Fatal(err)
	}
	make1 := func() (*http.Client, error) { return client.New(client.Config{CAPEM: h.ca}) }
	hc, err := make1()
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := tunnelclient.New(tunnelclient.Config{
		Endpoints: func() []string { return []string{h.url} }, HTTPClient: hc, Another: make1,
		Token: identitytest.Source(h.sign(h.t, identity.Identity{Kind: identity.KindAgent, Name: cluster}),
			identity.ServiceTunnel),
		Kube: kube, Transport: api.Client().Transport, Version: "v-test",
		Log: slog.New(slog.NewTextHandler(h.logs, nil)),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	})
}

// spread waits until a cluster has sessions at so many replicas. An agent looks for one without a session more and more
// rarely, up to once a minute, and where its connection goes is chance.
func (h *hub) spread(cluster string, replicas int) {
	h.t.Helper()
	h.awaitFor(4*patience, "sessions at all replicas", func() bool {
		at := map[string]bool{}
		for _, s := range h.sessions() {
			if s.GetCluster() == cluster {
				at[s.GetReplica()] = true
			}
		}
		return len(at) == replicas
	})
}

// load asks all the while, and follows a watch.
type load struct {
	h            *hub
	asked, fails atomic.Int64
	events       atomic.Int64
	resumed      atomic.Int64
	longest      atomic.Int64 // between two events, in ns
}

func (l *load) ask(ctx context.Context) {
	hc := l.h.client()
	for ctx.Err() == nil {
		resp, err := hc.Do(l.h.request("GET", "/clusters/edge-1/api", nil))
		if err == nil {
			b, readErr := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err = readErr; err == nil && (resp.StatusCode != 200 || string(b) != "answer") {
				err = fmt.Errorf("%s %s", resp.Status, b)
			}
		}
		if l.asked.Add(1); err != nil && l.fails.Add(1) < 10 {
			l.h.t.Errorf("request %d: %v", l.asked.Load(), err)
		}
	}
}

func (l *load) watch(ctx context.Context) {
	hc := l.h.client()
	for last := time.Now(); ctx.Err() == nil; l.resumed.Add(1) {
		resp, err := hc.Do(l.h.request("GET", "/clusters/edge-1/api/v1/pods?watch=true", nil).WithContext(ctx))
		if err != nil || resp.StatusCode != 200 {
			if ctx.Err() == nil {
				l.h.t.Errorf("watch: %v %v", resp, err)
			}
			return
		}
		lines := bufio.NewReader(resp.Body)
		for {
			line, err := lines.ReadBytes('\n')
			if err == io.EOF && len(line) == 0 || ctx.Err() != nil {
				break
			}
			if err != nil || !json.Valid(line) {
				l.h.t.Errorf("the watch broke off in %q: %v", line, err)
				break
			}
			l.longest.Store(max(l.longest.Load(), int64(time.Since(last))))
			last = time.Now()
			l.events.Add(1)
		}
		_ = resp.Body.Close()
	}
}

// Two replicas, both restarted one after the other: no request fails, watches end between two events and go on,
// and a shell ends when its user wants.
func TestRollingRestartUnderLoad(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	redis := redistest.Start(t)
	base := newHub(t, "edge-1")
	replicas, processes := make([]*hub, 2), make([]*subprocess.Process, 2)
	for i := range replicas {
		replicas[i], processes[i] = base.process(redis.URL(), t.TempDir())
	}
	lb := newBalancer(t)
	lb.set(replicas...)
	front := &hub{console: base.console, t: t, ca: base.ca, config: base.config, url: lb.url, logs: &syncBuffer{}}
	front.agent(eventAPI(t), "edge-1")
	front.spread("edge-1", 2)

	ctx, cancel := context.WithCancel(t.Context())
	l := &load{h: front}
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for range 3 {
		running.Go(func() { l.ask(ctx) })
	}
	running.Go(func() { l.watch(ctx) })
	for i := range replicas {
		shell, resp := replicas[i].upgrade("/clusters/edge-1/api/v1/namespaces/x/pods/y/exec?command=sh")
		if resp.StatusCode != 101 {
			t.Fatal(resp.Status)
		}
		before := l.asked.Load()
		front.await("some load", func() bool { return l.asked.Load() > before+50 })
		if err := processes[i].Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		front.await("the replica says that it goes", func() bool { return !replicas[i].ready() })
		lb.set(replicas[1-i])
		before = l.asked.Load()
		front.await("load while it goes", func() bool { return l.asked.Load() > before+50 })
		if _, err := io.WriteString(shell, "exit\n"); err != nil {
			t.Fatal(err)
		}
		_ = shell.CloseWrite()
		if b, err := io.ReadAll(shell); err != nil || string(b) != "exit\n" {
			t.Errorf("the shell: %q, %v", b, err)
		}
		if err := processes[i].Wait(); err != nil {
			t.Errorf("the replica: %v\n%s", err, replicas[i].logs)
		}
		replicas[i], processes[i] = base.process(redis.URL(), t.TempDir())
		lb.set(replicas...)
		front.spread("edge-1", 2)
	}
	before := l.events.Load()
	front.await("more events", func() bool { return l.events.Load() > before+10 })
	t.Logf("%d requests, %d failed; %d events, the watch was taken up again %d times, longest gap %v",
		l.asked.Load(), l.fails.Load(), l.events.Load(), l.resumed.Load(), time.Duration(l.longest.Load()))
	if l.resumed.Load() == 0 {
		t.Error("the watch never ended: nothing was tried")
	}
}
