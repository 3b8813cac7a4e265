package dialpolicy

import "net/netip"

// Network is what one caller can have all of, by which shares and wrong credentials are counted: an IPv4 address, or
// the 64 bits of IPv6 that every machine gets.
func Network(hostPort string) string {
	at, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return hostPort
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	prefix, err := addr.Prefix(64)
	if err != nil {
		return hostPort
	}
	return prefix.String()
}
