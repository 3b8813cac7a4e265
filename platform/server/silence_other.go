//go:build !linux

package server

import (
	"net"
	"syscall"
)

// unwrittenLimit is how long net/http waits for a peer of HTTP/2 to take a byte.
const unwrittenLimit = writeStall

// boundSilence does nothing where the kernel has no such bound: the server's own pings are left.
func boundSilence(string, string, syscall.RawConn) error { return nil }

func allowSilence(net.Conn) {}
