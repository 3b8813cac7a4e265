//go:build unix

package socket

import (
	"math"
	"syscall"
)

const (
	// descriptorsKept is the part of the process' descriptors that connections leave to everything else: one in so
	// many.
	descriptorsKept = 4
	// leastKept of them: a service has some 25 for itself (database, Redis, other services, files).
	leastKept = 32
)

// MostConnections returns how many connections the process' descriptors are good for.
func MostConnections() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return max(int64(limit.Cur)-max(int64(limit.Cur)/descriptorsKept, leastKept), 1)
}
