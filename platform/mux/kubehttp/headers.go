package kubehttp

import (
	"net/http"
	"net/textproto"
	"strings"
)

// StripRequest removes every field with which a request could forge an identity, and everything that
// Connection names, from a request's header or trailer. Both ends do it: the hub because the client
// is a stranger, the agent because it trusts only the OPEN frame.
func StripRequest(h http.Header) {
	for _, line := range named(h) {
		for name := range strings.SplitSeq(line, ",") {
			deleteFold(h, textproto.TrimString(name))
		}
	}
	for k := range h {
		if isForbidden(strings.ToLower(k)) {
			delete(h, k)
		}
	}
}

// named returns the values of every spelling of Connection.
func named(h http.Header) (lines []string) {
	for k, values := range h {
		if strings.EqualFold(k, "Connection") {
			lines = append(lines, values...)
		}
	}
	return lines
}

func deleteFold(h http.Header, name string) {
	for k := range h {
		if strings.EqualFold(k, name) {
			delete(h, k)
		}
	}
}

// isForbidden says whether with that request header field, in lower case, a client could pass for
// somebody else: at the API server, at a proxy before it, or at what it proxies to.
func isForbidden(lower string) bool {
	// Some servers behind the API server read "_" as "-".
	lower = strings.ReplaceAll(lower, "_", "-")
	switch lower {
	case "authorization", "cookie", "forwarded", "x-real-ip", "x-forwarded", "x-original-url", "x-rewrite-url":
		return true
	case "expect":
		// The hub's listener has answered 100 already; the API server's answer would have no one to go to.
		return true
	}
	for _, family := range [...]string{"impersonate-", "x-remote-", "x-forwarded-", "proxy-"} {
		if strings.HasPrefix(lower, family) {
			return true
		}
	}
	return false
}

// StripResponse removes fields of a cluster's response that would speak for the hub's own address:
// cookies, other addresses for it, and its CORS policy.
func StripResponse(h http.Header) {
	for k := range h {
		lower := strings.ToLower(k)
		if lower == "set-cookie" || lower == "alt-svc" || lower == "strict-transport-security" ||
			lower == "clear-site-data" || strings.HasPrefix(lower, "access-control-") {
			delete(h, k)
		}
	}
}
