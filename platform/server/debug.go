package server

import (
	"net/http"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"

	"fairlead.dev/platform/telemetry"
)

// maxProfile bounds how long one caller may have the processor profiled.
const maxProfile = 30 * time.Second

// debug tells of each read.
func (s *Server) debug(serve http.HandlerFunc) http.Handler {
	if s.debugged == nil {
		return serve
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &answer{ResponseWriter: w}
		defer func() { s.debugged(r, out.outcome()) }()
		serve(out, r)
	})
}

// serveLog answers with the end of the service's log.
func (s *Server) serveLog(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(telemetry.Recent(s.log)) // fails if the caller is gone
}

// profiling lets one caller at a time have a profile of any kind: each is work, and the runtime makes one of the processor at a time.
// The lock belongs to the process.
var profiling sync.Mutex //nolint:gochecknoglobals // so does the runtime's profiler

// serveProfile answers with a profile of the Go runtime by its name, or with "cpu" of ?seconds=.
func (s *Server) serveProfile(w http.ResponseWriter, r *http.Request) {
	if !profiling.TryLock() {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "another profile is being made: try again", http.StatusTooManyRequests)
		return
	}
	defer profiling.Unlock()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	name := r.PathValue("profile")
	if name == "cpu" {
		serveCPU(w, r)
		return
	}
	profile := pprof.Lookup(name)
	if profile == nil {
		http.Error(w, "no such profile: heap, allocs, goroutine, threadcreate, block, mutex and cpu?seconds=5 are known", http.StatusNotFound)
		return
	}
	debug, _ := strconv.Atoi(r.URL.Query().Get("debug")) // 0: the binary form
	_ = profile.WriteTo(w, debug)                        // fails if the caller is gone
}

func serveCPU(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(r.URL.Query().Get("seconds"))
	if err != nil || seconds < 1 || time.Duration(seconds)*time.Second > maxProfile {
		http.Error(w, "seconds: must be from 1 to "+strconv.Itoa(int(maxProfile.Seconds())), http.StatusBadRequest)
		return
	}
	if err := pprof.StartCPUProfile(w); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer pprof.StopCPUProfile()
	timer := time.NewTimer(time.Duration(seconds) * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}
