package kubehttp

import (
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
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
	for k, values := range h {
		if isForbidden(k) {
			delete(h, k)
		} else if strings.EqualFold(k, "Sec-Websocket-Protocol") {
			stripTokens(h, k, values)
		}
	}
}

// bearerProtocol begins the WebSocket subprotocol that an API server takes for a bearer token, as pages in
// browsers give it.
const bearerProtocol = "base64url.bearer.authorization.k8s.io." //nolint:gosec // how a credential begins, and none

// stripTokens removes credentials from a list of WebSocket subprotocols.
func stripTokens(h http.Header, name string, lines []string) {
	var kept []string
	for _, line := range lines {
		for protocol := range strings.SplitSeq(line, ",") {
			protocol = textproto.TrimString(protocol)
			if protocol != "" && !strings.HasPrefix(strings.ToLower(protocol), bearerProtocol) {
				kept = append(kept, protocol)
			}
		}
	}
	if delete(h, name); len(kept) > 0 {
		h[name] = []string{strings.Join(kept, ", ")}
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

// beginning is room for that of a field's name. The array is longer than all names that matter here.
type beginning [32]byte

// of gives a name's beginning in ASCII's lower case.
func (b *beginning) of(name string) []byte {
	n := copy(b[:], name)
	for i, c := range b[:n] {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return b[:n]
}

// Impersonates says whether a request header field asks to pass off as somebody else, in whatever spelling. An API
// server knows some of them.
func Impersonates(name string) bool {
	var room beginning
	begin := room.of(name)
	for i, c := range begin {
		if c == '_' {
			begin[i] = '-'
		}
	}
	return strings.HasPrefix(string(begin), "impersonate-")
}

// extraPrefix begins the header fields of extra information about whom a request impersonates.
const extraPrefix = "Impersonate-Extra-"

// ExtraField returns the header field that carries extra information under a key. The API server turns the field's name
// into lower case before it resolves escapes, so whatever is not a lower-case letter, a digit, '-' or '.' is escaped:
// the API server reads this key and no other.
func ExtraField(key string) string {
	const hex = "0123456789abcdef"
	field := make([]byte, 0, len(extraPrefix)+len(key))
	field = append(field, extraPrefix...)
	for _, c := range []byte(key) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' {
			field = append(field, c)
		} else {
			field = append(field, '%', hex[c>>4], hex[c&15])
		}
	}
	return http.CanonicalHeaderKey(string(field))
}

// ExtraKey returns the key in a field of extra information, as the API server reads it; ok: the field is one.
func ExtraKey(field string) (key string, ok bool, err error) {
	escaped, ok := strings.CutPrefix(field, extraPrefix)
	if !ok {
		return "", false, nil
	}
	key, err = url.PathUnescape(strings.ToLower(escaped))
	return key, true, err
}

// isForbidden says whether with that request header field a client could pass for somebody else: at the API server, at
// a proxy before it, or at what it proxies to.
func isForbidden(name string) bool {
	var room beginning
	begin := room.of(name)
	if slices.ContainsFunc(begin, func(c byte) bool { return c >= utf8.RuneSelf }) {
		return true // no field is named so, and some letters have lower cases among those below
	}
	for i, c := range begin {
		if c == '_' {
			begin[i] = '-' // some servers behind the API server read it so
		}
	}
	lower := string(begin)
	switch lower {
	case "authorization", "cookie", "forwarded", "x-real-ip", "x-forwarded", "x-original-url", "x-rewrite-url":
		return true
	case "expect":
		// The hub's listener has answered 100 already; the API server's answer would have no one to go to.
		return true
	}
	for _, family := range [...]string{"impersonate-", "x-remote-", "x-forwarded-", "proxy-", "fairlead-"} {
		if strings.HasPrefix(lower, family) {
			return true
		}
	}
	return false
}
