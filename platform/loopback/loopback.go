// Package loopback holds the one rule for what may be done without TLS or accounts because only this
// machine can reach it.
package loopback

import "net"

// Host says whether a host, as it stands in an address without port and brackets, is this machine by
// its name alone. No name but localhost is: what others resolve to can change.
func Host(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
