package main

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// backend answers /get with 2 KiB and /bulk?bytes=N with N bytes.
func backend(ctx context.Context, addr string) error {
	small := []byte(strings.Repeat("{\"kind\":\"Pod\"}\n", 137))[:2048]
	large := make([]byte, 256<<10)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /get", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(small)))
		_, _ = w.Write(small)
	})
	mux.HandleFunc("GET /bulk", func(w http.ResponseWriter, r *http.Request) {
		left, err := strconv.Atoi(r.URL.Query().Get("bytes"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(left))
		for left > 0 {
			n, err := w.Write(large[:min(left, len(large))])
			if err != nil {
				return
			}
			left -= n
		}
	})
	return serve(ctx, addr, mux)
}

func serve(ctx context.Context, addr string, h http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return serveAt(ctx, l, h)
}

func serveAt(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}
