package server

import (
	"errors"
	"syscall"
)

// Options of TCP that package syscall does not name.
const (
	tcpUserTimeout  = 0x12 // TCP_USER_TIMEOUT
	tcpNotSentLowat = 0x19 // TCP_NOTSENT_LOWAT
)

// boundSilence has the kernel give up a peer that takes nothing of what it is sent: keep-alives find those only
// to whom nothing is under way. Accepted connections inherit it.
func boundSilence(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = errors.Join(
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(writeStall.Milliseconds())),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, mostUnsent),
		)
	})
	if err != nil {
		return err
	}
	return failed
}
