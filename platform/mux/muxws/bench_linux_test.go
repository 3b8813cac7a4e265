package muxws_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	"fairlead.dev/platform/mux"
	"fairlead.dev/platform/mux/muxhttp"
	"fairlead.dev/platform/mux/muxws"
)

// BenchmarkGET asks for 2 KiB over a session on loopback, and tells the CPU time of both ends, which a crowded machine
// changes less than how long it takes.
func BenchmarkGET(b *testing.B) {
	for _, at := range []int{1, 16} {
		b.Run(fmt.Sprint("at once ", at), func(b *testing.B) { benchmarkGET(b, at) })
	}
}

func benchmarkGET(b *testing.B, at int) {
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	sessions := make(chan *mux.Session, 1)
	var sockets muxws.Acceptor
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := sockets.Accept(w, r)
		if err != nil {
			b.Error(err)
			return
		}
		session, err := mux.NewOpener(c, nil)
		if err != nil {
			b.Error(err)
			return
		}
		sessions <- session
		_ = session.Run(ctx)
	}))
	defer server.Close()
	c, err := muxws.Dial(ctx, server.Client(), server.URL, http.Header{})
	if err != nil {
		b.Fatal(err)
	}
	agent, err := mux.NewAcceptor(c, nil)
	if err != nil {
		b.Fatal(err)
	}
	running.Go(func() { _ = agent.Run(ctx) })
	text := []byte(strings.Repeat("x", 2<<10))
	running.Go(func() {
		_ = muxhttp.Serve(ctx, agent, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			_, _ = w.Write(text)
		}), slog.New(slog.DiscardHandler))
	})
	hub := <-sessions
	<-hub.Ready()
	transport := muxhttp.Transport{Session: hub, Caller: muxhttp.Caller{User: "ada", Groups: []string{"dev"}}}
	ask := func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet,
			"http://cluster/api/v1/namespaces/shop/pods/web-0", nil)
		if err != nil {
			return err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	b.ReportAllocs()
	b.ResetTimer()
	var askers sync.WaitGroup
	for i := range at {
		askers.Go(func() {
			for n := i; n < b.N; n += at {
				if err := ask(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	askers.Wait()
	b.StopTimer()
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	spent := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(spent)/float64(b.N)/1000, "cpu-us/op")
	b.ReportMetric(float64(after.Nvcsw-before.Nvcsw)/float64(b.N), "switches/op")
	cancel()
	running.Wait()
}
