//go:build !linux

package socket

import (
	"net"
	"syscall"
	"time"
)

// WriteLimit is how long net/http waits for a peer of HTTP/2 to take a byte.
func WriteLimit(limit time.Duration) time.Duration { return limit }

// BoundSilence does nothing where the kernel has no such bound: the server's own pings are left.
func BoundSilence(time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(string, string, syscall.RawConn) error { return nil }
}

// AllowSilence has nothing to take off.
func AllowSilence(net.Conn) {}
