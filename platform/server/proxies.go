package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// proxies are networks in front of the listener.
type proxies []netip.Prefix

func parseProxies(texts []string) (out proxies, err error) {
	for _, text := range texts {
		text = strings.TrimSpace(text)
		p, err := netip.ParsePrefix(text)
		if addr, isOne := netip.ParseAddr(text); isOne == nil {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("--trusted-proxies %q: must be addresses or networks, such as 10.0.0.0/8", text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func (p proxies) trust(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(a.Unmap().WithZone("")) })
}

// handler makes RemoteAddr the address of who called the first of our proxies. Each of them adds whom it was called by
// to the end of X-Forwarded-For; what stands before the first stranger is the stranger's word.
func (p proxies) handler(next http.Handler) http.Handler {
	if len(p) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && p.trust(at.Addr()) {
			if caller, ok := p.caller(r.Header.Values("X-Forwarded-For")); ok {
				r.RemoteAddr = net.JoinHostPort(caller.String(), "0")
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (p proxies) caller(forwarded []string) (caller netip.Addr, ok bool) {
	hops := strings.Split(strings.Join(forwarded, ","), ",")
	for _, hop := range slices.Backward(hops) {
		addr, read := parseHop(strings.TrimSpace(hop))
		if !read {
			break
		}
		caller, ok = addr.Unmap().WithZone(""), true
		if !p.trust(caller) {
			break
		}
	}
	return caller, ok
}

// parseHop reads an address as a proxy writes it; some add the port.
func parseHop(text string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr, true
	}
	at, err := netip.ParseAddrPort(text)
	return at.Addr(), err == nil
}
