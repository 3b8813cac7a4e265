// Package dialpolicy says which network addresses may be dialled on behalf of somebody who names a host: public ones,
// and of the special ones (private, loopback, link-local with the clouds' metadata, and so on) those that the operator
// allows. Where administrators name the host, private ones are allowed, too. Ask it with the address that is really
// dialled, so that a name which resolves to another one later gains nothing.
package dialpolicy

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// Flag allows special addresses, with the services that dial.
const Flag = "--allow-addresses"

// Policy is what may be dialled. The nil Policy allows public addresses only. Immutable.
type Policy struct {
	allowed []netip.Prefix
	private bool // The addresses of private networks count as public ones.
}

// New allows these special addresses besides all public ones.
func New(allow []netip.Prefix) *Policy { return &Policy{allowed: allow} }

// NewPrivate allows the addresses of private networks, too: administrators name what is there. The metadata servers of
// clouds in these networks stay special.
func NewPrivate(allow []netip.Prefix) *Policy { return &Policy{allowed: allow, private: true} }

// Parse reads the values of Flag.
func Parse(texts []string) ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return nil, fmt.Errorf("%q is no range of addresses. Write it as 10.0.0.0/8 or fd00::/8", text)
		}
		prefixes = append(prefixes, p.Masked())
	}
	return prefixes, nil
}

// Refused is an address that must not be dialled.
type Refused struct {
	Addr netip.Addr
	// Kind is the range that it is in, in words.
	Kind string
}

func (r *Refused) Error() string { return fmt.Sprintf("the address %s is %s", r.Addr, r.Kind) }

// Check returns a *Refused, or nil.
func (p *Policy) Check(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	found, ok := special(a)
	if !ok || p != nil && p.private && found.private {
		return nil
	}
	if !p.Lists(a) {
		return &Refused{Addr: a, Kind: found.kind}
	}
	if inner, ok := embedded(a); ok {
		return p.Check(inner)
	}
	return nil
}

// Control is for net.Dialer: judge, such as Check, is asked with the address that is dialled, after names are resolved.
func Control(judge func(netip.Addr) error) func(network, address string, c syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("address %q can't be judged", address)
		}
		return judge(a.Addr())
	}
}

// CheckHost judges a host that is an address, for when a proxy dials and we don't. Names pass.
func (p *Policy) CheckHost(host string) error {
	a, err := netip.ParseAddr(host)
	if err != nil {
		if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
			return p.Check(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
		}
		return nil // a name
	}
	return p.Check(a)
}

// Lists tells whether the operator allows an address by name.
func (p *Policy) Lists(a netip.Addr) bool {
	if p == nil {
		return false
	}
	a = a.Unmap().WithZone("")
	for _, prefix := range p.allowed {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// specialRange is a range that is not part of the public internet.
type specialRange struct {
	prefix  netip.Prefix
	kind    string
	private bool // Companies number their own machines with it.
}

// specials are IANA's registries of special-purpose addresses, and Azure's public-looking door to the
// machine's own host. The first that fits names the kind.
func specials() []specialRange {
	r := func(prefix, kind string) specialRange {
		return specialRange{prefix: netip.MustParsePrefix(prefix), kind: kind}
	}
	private := func(prefix, kind string) specialRange {
		return specialRange{prefix: netip.MustParsePrefix(prefix), kind: "private (" + kind + ")", private: true}
	}
	return []specialRange{
		r("127.0.0.0/8", "loopback (the hub's own machine)"),
		private("10.0.0.0/8", "RFC 1918"),
		private("172.16.0.0/12", "RFC 1918"),
		private("192.168.0.0/16", "RFC 1918"),
		r("169.254.0.0/16", "link-local (cloud metadata is there)"),
		r("100.100.100.200/32", "the cloud platform's (metadata is there)"),
		private("100.64.0.0/10", "carrier-grade NAT"),
		r("0.0.0.0/8", "unspecified (the hub's own machine)"),
		r("168.63.129.16/32", "the cloud platform's"),
		r("224.0.0.0/4", "multicast"),
		r("192.0.0.0/24", "reserved (protocol assignments)"),
		r("192.0.2.0/24", "for documentation"),
		r("198.51.100.0/24", "for documentation"),
		r("203.0.113.0/24", "for documentation"),
		r("198.18.0.0/15", "for benchmarks"),
		r("192.88.99.0/24", "reserved (6to4)"),
		r("240.0.0.0/4", "reserved or broadcast"),

		r("::1/128", "loopback (the hub's own machine)"),
		r("::/128", "unspecified (the hub's own machine)"),
		r("fd00:ec2::/32", "the cloud platform's (metadata is there)"),
		r("fd00:c1::/32", "the cloud platform's (metadata is there)"),
		r("fd20:ce::/32", "the cloud platform's (metadata is there)"),
		private("fc00::/7", "unique local"),
		r("fe80::/10", "link-local"),
		r("fec0::/10", "private (site-local)"),
		r("ff00::/8", "multicast"),
		r("64:ff9b::/96", "translated (NAT64)"),
		r("64:ff9b:1::/48", "translated (NAT64)"),
		r("2002::/16", "translated (6to4)"),
		r("2001:db8::/32", "for documentation"),
		r("3fff::/20", "for documentation"),
		r("2001::/23", "reserved (protocol assignments)"),
	}
}

// special is the range that an address is in; false: it is public.
func special(a netip.Addr) (specialRange, bool) {
	for _, s := range specials() {
		if s.prefix.Contains(a) {
			return s, true
		}
	}
	if a.Is6() && a.As16()[0]>>5 != 1 { // every address ever given out is in 2000::/3
		return specialRange{kind: "reserved"}, true
	}
	return specialRange{}, false
}

// embedded is the IPv4 address that a translator on the way would dial. The address is judged, too.
func embedded(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case !a.Is6():
	case [2]byte(b[:2]) == [2]byte{0x20, 0x02}: // 6to4
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case [12]byte(b[:12]) == [12]byte{0x00, 0x64, 0xff, 0x9b}: // NAT64
		return netip.AddrFrom4([4]byte(b[12:16])), true
	}
	return netip.Addr{}, false
}
