package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"fairlead.dev/platform/dialpolicy"
)

// Policy says which addresses may be dialled: public ones, and of the special ones (private, loopback,
// link-local with the clouds' metadata, and so on) those that the operator allows. The policy is asked with the address
// that is really dialled, so a name that resolves to another one later gains nothing. The nil Policy allows public
// addresses only.
type Policy struct {
	allowed *dialpolicy.Policy
}

// NewPolicy allows these special addresses besides all public ones.
func NewPolicy(allow []netip.Prefix) *Policy { return &Policy{allowed: dialpolicy.New(allow)} }

// Control is for net.Dialer.
func (p *Policy) Control(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return Refusal("the address %s can't be judged", CleanLine(address))
	}
	return explainRefused(p.addressPolicy().Check(a.Addr()))
}

// Dial is for transports. A refusal comes with the host's name.
func (p *Policy) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return dialAddress(ctx, network, address, p.Control)
}

// dialLocal is Dial for http, which goes to this machine only.
func (p *Policy) dialLocal(ctx context.Context, network, address string) (net.Conn, error) {
	return dialAddress(ctx, network, address, func(network, address string, c syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil || !a.Addr().Unmap().IsLoopback() {
			return Refusal("http:// is for this machine only, and this host is another. Use https://")
		}
		return p.Control(network, address, c)
	})
}

// dialAny is for the proxy of the gitcache's environment, which the operator chose.
func dialAny(ctx context.Context, network, address string) (net.Conn, error) {
	return dialAddress(ctx, network, address, nil)
}

func dialAddress(
	ctx context.Context, network, address string, control func(string, string, syscall.RawConn) error,
) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime, KeepAlive: keepAlive, Control: control}
	c, err := d.DialContext(ctx, network, address)
	if deadline, ok := ctx.Deadline(); ok && err != nil && !time.Now().Before(deadline) {
		<-ctx.Done() // the dialer reads the clock by itself, and can see the deadline pass before ctx's timer fires
	}
	if refused, ok := errors.AsType[*Error](err); ok {
		host, _, _ := net.SplitHostPort(address)
		return nil, Refusal("%s: %s", CleanLine(host), refused.Message)
	}
	return c, err
}

// checkHost judges a host that is an address, for when a proxy dials and we don't. Names pass.
func (p *Policy) checkHost(host string) error {
	return explainRefused(p.addressPolicy().CheckHost(host))
}

func (p *Policy) addressPolicy() *dialpolicy.Policy {
	if p == nil {
		return nil
	}
	return p.allowed
}

// explainRefused says what to do about an address that is refused.
func explainRefused(err error) error {
	refused, ok := errors.AsType[*dialpolicy.Refused](err)
	if !ok {
		return err
	}
	return Refusal("%s, and this gitcache must not dial it. Correct the source, or let the hub's operator add it to %s", refused, dialpolicy.Flag)
}
