package socket

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"time"
)

// Options of TCP that package syscall does not name.
const (
	tcpUserTimeout  = 0x12 // TCP_USER_TIMEOUT
	tcpNotSentLowat = 0x19 // TCP_NOTSENT_LOWAT
)

// mostUnsent is what the kernel keeps of an answer beyond what is on its way, in bytes; more would not be faster. Its
// own bound is 4 MiB, which a reader that stalls has taken from it before anybody notices.
const mostUnsent = 128 << 10

// WriteLimit is how long net/http waits for a peer of HTTP/2 to take a byte. There is no such limit here: BoundSilence
// has the kernel give up that peer, and a deadline of net/http's for each write would cost a short call a fiftieth of
// its time for the same.
func WriteLimit(time.Duration) time.Duration { return 0 }

// BoundSilence returns the control function of a listener. The kernel then gives up a peer that takes nothing for that
// long of what it is sent: keep-alives find those only to whom nothing is under way. Accepted connections inherit it.
func BoundSilence(limit time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = errors.Join(
				syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(limit.Milliseconds())),
				syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, mostUnsent),
			)
		})
		if err != nil {
			return err
		}
		return failed
	}
}

// AllowSilence takes that bound off a connection again. The connection may have become one with a reader who pauses,
// such as a person at a terminal, which the kernel doesn't tell from one that is gone.
func AllowSilence(conn net.Conn) {
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
