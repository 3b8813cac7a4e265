//go:build unix

package http1

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// quiet tells whether a connection that nobody uses is as it was left: the server has neither closed it nor said
// anything, which could be taken for the next answer.
func quiet(c net.Conn) bool {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	socket, ok := c.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:]) // sockets of ours never block. A byte that was taken away ends the connection.
		quiet = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && quiet
}
