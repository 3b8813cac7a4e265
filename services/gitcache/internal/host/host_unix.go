//go:build unix

package host

import "syscall"

// LimitDescriptors lowers a number of packs to what an eighth of this process's descriptors allow.
func LimitDescriptors(most int) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return most
	}
	return int(min(uint64(most), max(uint64(limit.Cur)/16, 1))) //nolint:unconvert // not above most; signed on some systems
}

// YieldProcessor lets everything else on the machine go before a group of processes. A failure does no harm.
func YieldProcessor(group int) { _ = syscall.Setpriority(syscall.PRIO_PGRP, group, 10) }

// FreeShare is the part of a folder's disk that is free, as this process may use it.
func FreeShare(dir string) float64 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil || st.Blocks == 0 {
		return 1
	}
	return float64(st.Bavail) / float64(st.Blocks)
}
