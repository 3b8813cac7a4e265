package socket

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// HasLeft tells whether the other side has closed a connection, or lost it: what it sent before may be unread.
func HasLeft(c syscall.Conn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	left := false
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		left = err == nil && (info.State == unix.BPF_TCP_CLOSE_WAIT || info.State == unix.BPF_TCP_CLOSE)
	})
	return err != nil || left
}
