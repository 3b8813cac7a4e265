package muxhttp

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// hopByHop are about one connection: RFC 9110, 7.6.1.
var hopByHop = [...]string{ //nolint:gochecknoglobals // constant
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// hasHopByHop says whether RemoveHopByHop would remove something.
func hasHopByHop(h http.Header) bool {
	return slices.ContainsFunc(hopByHop[:], func(name string) bool { return h[name] != nil })
}

// RemoveHopByHop removes the fields that are about one connection, and those that Connection names.
func RemoveHopByHop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// IsUpgrade says whether a request asks to change the protocol, as exec and port-forward do.
func IsUpgrade(h http.Header) bool {
	if h.Get("Upgrade") == "" {
		return false
	}
	return slices.ContainsFunc(h["Connection"], func(line string) bool {
		return strings.Contains(strings.ToLower(line), "upgrade")
	})
}

// hasNoBody says whether a response to method with this status has no body, whatever its length says.
func hasNoBody(method string, status int) bool {
	return method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified || status < 200
}
