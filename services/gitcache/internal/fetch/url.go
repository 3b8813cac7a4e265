package fetch

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// maxURLBytes is what the catalog takes, too.
const maxURLBytes = 2048

// ParseURL checks a source's URL against the policy: https to any host, http to this machine only, no
// other scheme, and no credentials in it.
func ParseURL(raw string) (*url.URL, error) {
	if len(raw) > maxURLBytes {
		return nil, refuse("the url is longer than %d bytes", maxURLBytes)
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's error quotes the URL, which may hold a password.
		return nil, refuse("the url can't be parsed. Write it as https://host/path")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, refuse("the url's scheme %q is not supported. Use https://", shorten(u.Scheme))
	case u.User != nil:
		return nil, refuse("the url holds credentials. Put them into a secret and name it in the source")
	case u.Hostname() == "" || strings.HasPrefix(u.Host, "-"):
		return nil, refuse("the url names no host. Write it as https://host/path")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, refuse("the url has a query or a fragment. Write it as https://host/path")
	case u.Scheme == "http" && !loopbackName(u.Hostname()):
		return nil, refuse("http:// is for this machine only, and %s is not. Use https://", u.Host)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
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
