package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.dev/e2e/process"
	"fairlead.dev/e2e/stack"
	"fairlead.dev/platform/client"
)

const (
	// fewFiles is the limit of open files that a service gets here; the usual one is 1,024 at least.
	fewFiles = 64
	// strangers hold a connection each and say nothing.
	strangers = 200
)

// TestEachServiceLivesWithFewDescriptors restarts each part with so few descriptors that strangers can take them all:
// it starts or says what it needs, lives through the strangers, says so, and delivers when they are gone.
func TestEachServiceLivesWithFewDescriptors(t *testing.T) {
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip("few descriptors take prlimit (util-linux)")
	}
	bins, err := stack.FindBinaries(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	if missing() == "" { // the process is in a network namespace without a link
		if err := run("ip", "link", "set", "lo", "up"); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := stack.Separate(ctx, t, bins)
	hub, err := client.New(client.Config{CAFile: s.CAFile})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.CloseIdleConnections)
	w := &world{Stack: s, t: t, hub: hub}
	if w.ship, err = s.NewShip(ctx, "ship", "ship"); err != nil {
		t.Fatal(err)
	}
	if err := w.ship.WaitApplied(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"agent-a", "tunnel", "distributor", "gitcache", "console"} {
		w.few(ctx, bins, part)
	}
}

func (w *world) few(ctx context.Context, bins stack.Binaries, part string) {
	w.t.Helper()
	p := w.Process(part)
	kind, _, _ := strings.Cut(part, "-")
	args, program := slices.Clone(p.Args), bins.Dir+"/"+kind
	restart := func(path string, args ...string) {
		w.t.Helper()
		err := p.Stop(time.Minute)
		p.Replace(path, args...)
		if err := errors.Join(err, p.Start()); err != nil {
			w.t.Fatal(err)
		}
	}
	mark := len(w.log(part))
	restart("prlimit", append([]string{fmt.Sprintf("--nofile=%d:%d", fewFiles, fewFiles), "--", program}, args...)...)
	began := time.Now()
	w.deliver(ctx, part+" has few descriptors")
	w.t.Logf("%s with %d descriptors delivers after %.1f s", part, fewFiles, time.Since(began).Seconds())
	if address, ok := w.URLs[part]; ok {
		at, err := url.Parse(address)
		if err != nil {
			w.t.Fatal(err)
		}
		leave := w.crowd(ctx, at.Host)
		err = w.answers(ctx, part)
		leave()
		w.t.Logf("%s beside %d strangers: %v", part, strangers, err)
		if err != nil {
			w.t.Errorf("%s beside %d strangers: %v", part, strangers, err)
		}
	}
	began = time.Now()
	w.deliver(ctx, part+" after strangers")
	w.t.Logf("%s delivers %.1f s after the strangers left", part, time.Since(began).Seconds())
	if ended, err := p.Ended(); ended {
		w.t.Errorf("%s has ended: %v: %s", part, err, p.Tail())
	}
	for line := range strings.SplitSeq(w.log(part)[mark:], "\n") {
		if strings.Contains(line, "too many") {
			w.t.Logf("%s: %.300s", part, line)
			break
		}
	}
	restart(program, args...)
}

// crowd has strangers of another network connect and say nothing; they dial again when they are turned away, until they
// leave.
func (w *world) crowd(ctx context.Context, address string) (leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{}, strangers)
	met := make(chan struct{}, strangers)
	for range strangers {
		go func() {
			defer func() { done <- struct{}{} }()
			first := true
			_ = process.Await(ctx, "the end", func(ctx context.Context) error {
				conn, err := (&net.Dialer{
					Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)},
				}).DialContext(ctx, "tcp", address)
				if first {
					first = false
					met <- struct{}{}
				}
				if err != nil {
					return err
				}
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
				defer stop()
				_, err = io.Copy(io.Discard, conn) // until it is hung up on
				return errors.Join(err, conn.Close(), errors.New("hung up on"))
			})
		}()
	}
	for range strangers {
		<-met
	}
	return func() {
		cancel()
		for range strangers {
			<-done
		}
	}
}

// answers asks a service over new connections until it says that it is ready.
func (w *world) answers(ctx context.Context, part string) error {
	ctx, cancel := context.WithTimeout(ctx, told)
	defer cancel()
	return process.Await(ctx, part+" answers", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URLs[part]+"/readyz", nil)
		if err != nil {
			return err
		}
		req.Close = true
		resp, err := w.hub.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }() // read or not
		if resp.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
			return fmt.Errorf("%s %s", resp.Status, text)
		}
		return nil
	})
}

func (w *world) deliver(ctx context.Context, marker string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, recovered)
	defer cancel()
	commit, err := w.ship.Push(ctx, marker)
	if err == nil {
		err = w.ship.WaitApplied(ctx, marker)
	}
	if err == nil {
		err = w.ship.WaitHealthy(ctx, commit)
	}
	if err == nil {
		err = process.Await(ctx, "people read it",
			func(ctx context.Context) error { return w.ship.ReadBack(ctx, marker) })
	}
	if err != nil {
		w.t.Fatalf("%s: %v", marker, err)
	}
}
