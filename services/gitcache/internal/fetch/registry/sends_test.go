package registry

import (
	"net/url"
	"testing"

	"fairlead.dev/services/gitcache/internal/upstream"
)

// A registry says itself where its tokens come from: the login goes to its own place, to the token services that are
// documented, and to those of the source.
func TestALoginGoesToTokenServicesThatAreKnown(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		registry, service, named string
		want                     bool
	}{
		{registry: "https://registry.example.com", service: "https://registry.example.com/token", want: true},
		{registry: "https://registry.example.com", service: "https://registry.example.com:8443/token"},
		{registry: "https://registry.example.com", service: "https://auth.example.com/token"},
		{registry: "https://registry.example.com", service: "https://auth.example.com/token", named: "other.example.com auth.example.com", want: true},
		{registry: "https://registry.example.com", service: "https://auth.example.com:8443/token", named: "auth.example.com"},
		{registry: "https://registry.example.com", service: "http://auth.example.com/token", named: "auth.example.com"},
		{registry: "https://registry.example.com", service: "http://auth.example.com:443/token", named: "auth.example.com"},
		{registry: "https://registry-1.docker.io", service: "https://auth.docker.io/token", want: true},
		{registry: "https://registry-1.docker.io", service: "https://auth.docker.io.example.com/token"},
		{registry: "https://registry.gitlab.com", service: "https://gitlab.com/jwt/auth", want: true},
		{registry: "https://registry.example.com", service: "https://auth.docker.io/token"},
		{registry: "https://registry.example.com", service: "https://gitlab.com/jwt/auth"},
	} {
		at, err := url.Parse(tc.registry)
		if err != nil {
			t.Fatal(err)
		}
		service, err := url.Parse(tc.service)
		if err != nil {
			t.Fatal(err)
		}
		r := upstream.Remote{URL: at, Registry: upstream.Registry{Is: true, TokenHosts: tc.named}}
		if got := sendsTo(r, service); got != tc.want {
			t.Errorf("%s for %s, with %q named: %t", tc.service, tc.registry, tc.named, got)
		}
	}
}
