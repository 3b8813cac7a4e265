package fetch

import (
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
		return nil, refuse("the url %s", err)
	}
	return u, nil
}

// loopbackName tells whether a name stands for this machine. What it resolves to is checked again when
// it is dialled.
func loopbackName(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// origin is what credentials are bound to.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// show is a URL as it may be shown: without user, query and fragment.
func show(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// shorten keeps what others wrote from flooding a message.
func shorten(s string) string {
	const most = 120
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
