package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestCallersBehindTrustedProxiesAreToldApart(t *testing.T) {
	t.Parallel()
	trusted, err := parseProxies([]string{"10.0.0.0/8", " 192.0.2.7", "2001:db8::/32"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		remote    string
		forwarded []string
		want      string
	}{
		"no proxy":                        {"203.0.113.9:1234", []string{"198.51.100.1"}, "203.0.113.9:1234"},
		"neighbour of a proxy":            {"192.0.2.8:1", []string{"198.51.100.1"}, "192.0.2.8:1"},
		"a proxy that says nothing":       {"10.1.2.3:1", nil, "10.1.2.3:1"},
		"a proxy":                         {"10.1.2.3:1", []string{"198.51.100.1"}, "198.51.100.1:0"},
		"a proxy by IPv4 in IPv6":         {"[::ffff:10.1.2.3]:1", []string{"198.51.100.1"}, "198.51.100.1:0"},
		"what the caller made up":         {"10.1.2.3:1", []string{"1.1.1.1, 198.51.100.1"}, "198.51.100.1:0"},
		"what it made up is ours":         {"10.1.2.3:1", []string{"10.9.9.9, 198.51.100.1"}, "198.51.100.1:0"},
		"two proxies, two fields":         {"192.0.2.7:1", []string{"1.1.1.1, 198.51.100.1", "10.4.4.4"}, "198.51.100.1:0"},
		"a service of ours":               {"10.1.2.3:1", []string{"10.4.4.4"}, "10.4.4.4:0"},
		"nonsense":                        {"10.1.2.3:1", []string{"198.51.100.1, <script>"}, "10.1.2.3:1"},
		"nonsense before a proxy":         {"10.1.2.3:1", []string{"<script>, 10.4.4.4"}, "10.4.4.4:0"},
		"IPv6":                            {"[2001:db8::1]:1", []string{"2a00::1"}, "[2a00::1]:0"},
		"a proxy that tells ports":        {"10.1.2.3:1", []string{"198.51.100.1:4711, 10.4.4.4:5"}, "198.51.100.1:0"},
		"ports of IPv6":                   {"10.1.2.3:1", []string{"[2a00::1]:4711"}, "[2a00::1]:0"},
		"a zone can't make it a stranger": {"10.1.2.3:1", []string{"198.51.100.1, 2001:db8::5%x"}, "198.51.100.1:0"},
	} {
		got := ""
		h := trusted.handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RemoteAddr }))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = tc.remote, tc.forwarded
		h.ServeHTTP(nil, r)
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
	for _, bad := range []string{"", "proxy.example.com", "10.0.0.0/33"} {
		if _, err := parseProxies([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
