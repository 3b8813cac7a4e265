package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"fairlead.dev/platform/giturl"
)

// ParseURL reads a source's URL: what the catalog takes, see giturl.Parse.
func ParseURL(raw string) (*url.URL, error) {
	u, err := giturl.Parse(raw)
	if err != nil {
		return nil, Refusal("the url %s", err)
	}
	return u, nil
}

// IsLoopback tells whether a name stands for this machine. The address that it resolves to is checked again when it
// is dialled.
func IsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// SameOrigin tells whether two URLs are the same scheme, host and port: only then the credentials for
// one may be sent to the other.
func SameOrigin(a, b *url.URL) bool { return OriginOf(a) == OriginOf(b) }

// OriginOf is what credentials are bound to.
func OriginOf(u *url.URL) string {
	return u.Scheme + "://" + HostPort(u)
}

// HostPort is host:port.
func HostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		switch u.Scheme {
		case "https", "oci":
			port = "443"
		case "http":
			port = "80"
		case "ssh":
			port = "22"
		}
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// DoorOf is what a budget is for: a place and, where the source brings its own, the authority and the proxy
// by which it is known and reached. The host that answers there need not be the host that others mean, so it has them
// neither wait nor change their ways.
func (r Remote) DoorOf(u *url.URL) string {
	if r.Credentials.CA == "" && r.Proxy == nil {
		return HostPort(u)
	}
	proxy := ""
	if r.Proxy != nil {
		proxy = r.Proxy.String()
	}
	sum := sha256.Sum256([]byte(proxy + "\x00" + r.Credentials.CA))
	return HostPort(u) + doorMark + hex.EncodeToString(sum[:])
}

const doorMark = " "

// placeOf is the part of a door that is for people.
func placeOf(door string) string {
	place, _, _ := strings.Cut(door, doorMark)
	return place
}

// ShowURL is a URL as it may be shown: without user, query and fragment.
func ShowURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// ParseProxy reads the URL of a source's proxy: what the catalog takes, see giturl.ParseProxy.
func ParseProxy(raw string) (*url.URL, error) {
	u, err := giturl.ParseProxy(raw)
	if err != nil {
		return nil, Refusal("the proxy's url %s", err)
	}
	return u, nil
}

// shortenText keeps what others wrote from flooding a message.
func shortenText(s string) string {
	const most = 120
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// TrimStop makes a sentence's end of whatever others end theirs with.
func TrimStop(s string) string { return strings.TrimRight(s, ". ") }
