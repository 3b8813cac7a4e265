package socket

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// HasUnread tells whether the other side has sent bytes that nobody has read yet.
func HasUnread(c syscall.Conn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	unread := false
	err = raw.Control(func(fd uintptr) {
		n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		unread = err == nil && n > 0
	})
	return err == nil && unread
}
