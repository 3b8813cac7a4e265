package server

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// Options of TCP that package syscall does not name.
const (
	tcpUserTimeout  = 0x12 // TCP_USER_TIMEOUT
	tcpNotSentLowat = 0x19 // TCP_NOTSENT_LOWAT
)

// unwrittenLimit is none: boundSilence has the kernel give up a peer that takes no byte, and a deadline of net/http's for each write would
// cost a short call a fiftieth of its time for the same.
const unwrittenLimit = 0

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

// allowSilence takes that bound off a connection again. The connection may have become one with a reader who pauses, such as
// a person at a terminal, which the kernel doesn't tell from one that is gone.
func allowSilence(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	under, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := under.SyscallConn()
	if err != nil {
		return // the connection is closed
	}
	_ = raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, 0) })
}
