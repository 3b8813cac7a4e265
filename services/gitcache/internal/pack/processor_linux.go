package pack

import (
	"syscall"
	"time"
)

// processorTime is what this thread has worked so far. A machine that is busy, or whose disk is slow, adds nothing to
// it.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &usage); err != nil {
		return 0 // there is no limit then
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
