package child

import (
	"fmt"
	"syscall"
)

const (
	// maxData is what a child may map, in bytes. The parent looks at what it really uses.
	maxData = 1 << 30
	// openFiles are those that a child begins with: it opens none, and so reaches no file and no network.
	openFiles = 4
	nice      = 10
)

// confineProcess takes away what rendering does not need. That can't be undone.
func confineProcess(seconds uint64) error {
	for _, limit := range []struct {
		what     int
		cur, max uint64
	}{
		{syscall.RLIMIT_CPU, seconds, seconds + 1},
		{syscall.RLIMIT_DATA, maxData, maxData},
		{syscall.RLIMIT_FSIZE, 0, 0},
		{syscall.RLIMIT_CORE, 0, 0},
		{syscall.RLIMIT_NOFILE, openFiles, openFiles},
	} {
		if err := syscall.Setrlimit(limit.what, &syscall.Rlimit{Cur: limit.cur, Max: limit.max}); err != nil {
			return fmt.Errorf("set limit %d: %w", limit.what, err)
		}
	}
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice); err != nil {
		return fmt.Errorf("be nice: %w", err)
	}
	return nil
}
