package artifact

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime is when a file's bytes or its entry changed last, by the kernel's clock.
func changeTime(info fs.FileInfo) time.Time {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(st.Ctim.Unix())
}
