//go:build unix

package server

import (
	"math"
	"syscall"
)

// mostConnections is how many connections the process' descriptors are good for.
func mostConnections() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return max(int64(limit.Cur)-max(int64(limit.Cur)/descriptorsKept, leastKept), 1)
}
