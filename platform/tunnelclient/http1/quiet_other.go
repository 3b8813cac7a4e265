//go:build !unix

package http1

import "net"

// quiet can't be told here: a connection that the server has closed is found when it is used.
func quiet(net.Conn) bool { return true }
