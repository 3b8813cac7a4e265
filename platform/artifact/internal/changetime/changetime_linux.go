// Package changetime tells when a file changed last by the kernel's own time of it, which no program can set.
package changetime

import (
	"io/fs"
	"syscall"
	"time"
)

// Of is when a file's bytes or its entry changed last, by the kernel's clock.
func Of(info fs.FileInfo) time.Time {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(st.Ctim.Unix())
}
