// Package profile serves profiles of this process.
package profile

import (
	"net/http"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"
)

// maxProfile bounds how long one caller may have the processor profiled.
const maxProfile = 30 * time.Second

// making lets one caller at a time have a profile of any kind: each is work, and the runtime makes one of the processor
// at a time. The lock belongs to the process.
var making sync.Mutex //nolint:gochecknoglobals // so does the runtime's profiler

// Serve answers with a profile of the Go runtime by its name, or with "cpu" of ?seconds=.
func Serve(w http.ResponseWriter, r *http.Request) {
	if !making.TryLock() {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "another profile is being made: try again", http.StatusTooManyRequests)
		return
	}
	defer making.Unlock()
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
