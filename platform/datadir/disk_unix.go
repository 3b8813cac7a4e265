//go:build unix

package datadir

import "syscall"

// free are the bytes of a folder's disk that this process may use, and all of it; 0 of it: that is not known.
func free(dir string) (left, all uint64) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0
	}
	size := uint64(st.Bsize) // never negative; signed on some systems
	return uint64(st.Bavail) * size, uint64(st.Blocks) * size
}
