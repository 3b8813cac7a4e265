package server

import "syscall"

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall does not name.
const tcpUserTimeout = 0x12

// boundSilence has the kernel give up a peer that takes nothing of what it is sent: keep-alives find those only
// to whom nothing is under way. Accepted connections inherit it.
func boundSilence(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(writeStall.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
