package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// TestAlone has a hub of its own for what is measured at its processes, or takes them away.
func TestAlone(t *testing.T) {
	t.Parallel()
	shared(t) // the Kubernetes API, with what is in it
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	h, err := startHub(ctx, filepath.Join(world.dir, "alone"), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(h.tails())
		}
	})
	// One after the other.
	t.Run("stalled readers cost little and slow nobody", h.testStalledReaders)
	t.Run("aborted requests leave nothing behind", h.testAbortedRequests)
	t.Run("replicas restart and nobody notices", h.testRollingRestart)
}

// testStalledReaders has readers that take nothing of an endless answer.
func (h *hub) testStalledReaders(t *testing.T) {
	const readers, mostBytes = 30, 1 << 20
	const collections = 2 // of garbage, for which some hundred answers are needed each
	client, err := h.client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	rate := func() float64 {
		const gets = 300
		began := time.Now()
		for range gets {
			if code, body, err := get(t.Context(), client, h.base("x1")+"/api/v1/namespaces/many/configmaps/object-0-0", h.token); err != nil || code != http.StatusOK {
				t.Fatal(code, body, err)
			}
		}
		return gets / time.Since(began).Seconds()
	}
	// settled is the load after garbage was collected some times, while others work.
	settled := func() (l load, rates float64) {
		from := h.mustLoad(t, client, "x1").collections
		for {
			rates = max(rates, rate())
			if l = h.mustLoad(t, client, "x1"); l.collections >= from+collections {
				return l, rates
			}
		}
	}
	before, unstalled := settled()
	for range readers {
		conn := h.dial(t, "x1", "http/1.1")
		// No byte of the answer is read.
		request := "GET /clusters/" + cluster + "/api/v1/namespaces/straight/pods/web/exec?command=cat&command=/dev/zero&stdout=true HTTP/1.1\r\n" +
			"Host: hub\r\nAuthorization: Bearer " + h.token + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
	}
	var last int64
	quiet := 0
	await(t, "all readers are stalled", func(ctx context.Context) error {
		m, err := metrics(ctx, client, h.urls["x1"], h.token)
		if err != nil {
			return err
		}
		const looks, little = 10, 100 << 10 // bytes in between: of these looks, and pings
		now := bytesRead(h.parts["x1"].Pid())
		if quiet++; now > last+little {
			quiet = 0
		}
		last = now
		if running := m["fairlead_tunnel_streams"]; running < readers || quiet < looks {
			return fmt.Errorf("%.0f streams run, %d bytes came in", running, last)
		}
		return nil
	})
	after, stalled := settled()
	each := (after.live - before.live) / readers
	t.Logf("a stalled reader costs %d KiB of the hub (resident: %d); others get %.0f answers/s beside %d of them, %.0f without",
		each>>10, (after.rss-before.rss)/readers>>10, stalled, readers, unstalled)
	if each > mostBytes {
		t.Errorf("before: %s; with %d stalled readers: %s", before, readers, after)
	}
}

// testAbortedRequests gives up requests at all times of their lives.
func (h *hub) testAbortedRequests(t *testing.T) {
	requests, hands := 3000, 16
	if *long {
		requests = 100_000
	}
	steady, err := h.client()
	if err != nil {
		t.Fatal(err)
	}
	defer steady.CloseIdleConnections()
	abort := func(n int) {
		var group errgroup.Group
		for hand := range hands {
			group.Go(func() error {
				client, err := h.client()
				if err != nil {
					return err
				}
				defer client.CloseIdleConnections()
				if hand%2 == 0 {
					client.Transport.(*http.Transport).TLSClientConfig.NextProtos = []string{"http/1.1"} // aborts by closing the connection
				}
				for range n / hands {
					h.abort(client, []string{"x1", "x2"}[hand/2%2])
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	abort(requests / 4) // buffers and pools fill
	parts := []string{"x1", "x2"}
	before := map[string]load{}
	for _, part := range parts {
		h.awaitQuiet(t, steady, part)
		before[part] = h.mustLoad(t, steady, part)
	}
	agent := openFiles(h.parts["agent"].Pid())
	abort(requests)
	const slack, slackBytes = 100, 32 << 20 // idle connections, and garbage
	for _, part := range parts {
		await(t, part+" has nothing left of aborted requests", func(ctx context.Context) error {
			after, err := h.load(ctx, steady, part)
			if err != nil {
				return err
			}
			was := before[part]
			if after.goroutines > was.goroutines+slack || after.streams > 0 ||
				after.descriptors > was.descriptors+slack || after.rss > was.rss+slackBytes {
				return fmt.Errorf("%s; before: %s", after, was)
			}
			t.Logf("%s before: %s; after: %s", part, was, after)
			return nil
		})
	}
	await(t, "the agent has nothing left of aborted requests", func(context.Context) error {
		if now := openFiles(h.parts["agent"].Pid()); now > agent+slack {
			return fmt.Errorf("%d open files, %d before", now, agent)
		}
		return nil
	})
}

// abort gives up one request, sometimes before the answer begins, sometimes in it.
func (h *hub) abort(client *http.Client, part string) {
	const most = 8 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), rand.N(most))
	defer cancel()
	path := []string{
		"/api/v1/namespaces/many/configmaps?limit=300", "/api/v1/namespaces/many/configmaps/object-0-0",
		"/api/v1/configmaps?watch=true", "/openapi/v2",
	}[rand.IntN(4)]
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.base(part)+path, nil)
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	resp, err := client.Do(req)
	if err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 1000)
	_ = resp.Body.Close()
}

// awaitQuiet waits until a tunnel carries nothing.
func (h *hub) awaitQuiet(t testing.TB, client *http.Client, part string) {
	t.Helper()
	await(t, part+" is quiet", func(ctx context.Context) error {
		l, err := h.load(ctx, client, part)
		if err == nil && l.streams > 0 {
			err = errors.New(l.String())
		}
		return err
	})
}

// testRollingRestart restarts one replica after the other, behind nginx and under load.
func (h *hub) testRollingRestart(t *testing.T) {
	client, err := h.client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	watch := newSteadyWatch(t, h, client)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()

	var gets, execs atomic.Int64
	for range 4 {
		running.Go(func() {
			for ctx.Err() == nil {
				code, body, err := get(ctx, client,
					h.base("nginx")+"/api/v1/namespaces/many/configmaps/object-0-0", h.token)
				if ctx.Err() != nil {
					return
				}
				if gets.Add(1); err != nil || code != http.StatusOK || !strings.Contains(body, "tunnel tunnel") {
					t.Errorf("GET %d: %d %.300s %v", gets.Load(), code, body, err)
					return
				}
			}
		})
	}
	k := kubectl{flags: []string{"--kubeconfig", h.kubeconfig(t, "nginx")}}
	for range 2 {
		running.Go(func() {
			for ctx.Err() == nil { // each lasts for a second, well within its deadline
				a := k.run(t, "", "exec", "web", "-n", "straight", "--", "sh",
					"-c", "for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done; exit 7")
				if execs.Add(1); a.code != 7 || a.stdout != "line 1\nline 2\nline 3\nline 4\nline 5\n" {
					t.Errorf("exec %d: %s", execs.Load(), a)
					return
				}
			}
		})
	}
	running.Go(func() { watch.run(ctx, t) })
	running.Go(func() { watch.write(ctx, t) })

	for range 2 {
		for _, part := range []string{"x1", "x2"} {
			seen, asked, ran := watch.seen(), gets.Load(), execs.Load()
			if err := h.parts[part].Stop(stopGrace); err != nil {
				t.Fatal(err)
			}
			if err := h.parts[part].Start(); err != nil {
				t.Fatal(err)
			}
			await(t, part+" has a session again, and work goes on", func(ctx context.Context) error {
				if t.Failed() {
					return nil
				}
				m, err := metrics(ctx, client, h.urls[part], h.token)
				if err == nil && (m["fairlead_tunnel_sessions"] < 1 || watch.seen() < seen+20 || gets.Load() < asked+20 || execs.Load() < ran+2) {
					err = fmt.Errorf("%.0f sessions, %d events, %d GETs, %d execs", m["fairlead_tunnel_sessions"],
						watch.seen()-seen, gets.Load()-asked, execs.Load()-ran)
				}
				return err
			})
		}
	}
	watch.stop()
	stop()
	running.Wait()
	t.Logf("%d GETs and %d execs over 4 restarts; the watch was resumed %d times, its longest gap was %s", gets.Load(),
		execs.Load(), watch.resumed, watch.gap)
	if *long && watch.gap >= time.Second {
		t.Error("the gap is a second or more")
	}
}
