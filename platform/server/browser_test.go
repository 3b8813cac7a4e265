package server

import (
	"flag"
	"net/http"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/gen/fairlead/console/v1/consolev1connect"
	"fairlead.dev/platform/client"
	"fairlead.dev/platform/identity"
)

// A page elsewhere may use cookies only if its origin is written out.
func TestWhosePagesMayUseCookies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		allowed, origin string
		may             bool
	}{
		{"https://ui.example.com", "https://ui.example.com", true},
		{"https://ui.example.com", "https://evil.example.com", false},
		{"*", "https://evil.example.com", false},
		{"https://*.example.com", "https://evil.example.com", false},
	} {
		// A proxy ends TLS.
		s := start(t, Config{Plaintext: true, AllowedOrigins: []string{tt.allowed}}, rpcMounts(fine)...)
		hc, at := httpClient(t, client.Config{}), s.URL()+consolev1connect.ClusterServiceGetClusterProcedure
		resp, _ := request(t, hc, "OPTIONS", at, "", "", "Origin", tt.origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers",
			"connect-protocol-version,content-type,"+strings.ToLower(identity.CSRFHeader))
		if got := resp.Header.Get("Access-Control-Allow-Credentials") == "true"; got != tt.may {
			t.Errorf("%s for %s: browsers are told %t", tt.allowed, tt.origin, got)
		}
		resp, body := request(t, hc, "POST", at, "", `{"name": "edge-1"}`, "Origin", tt.origin, "Content-Type", "application/json",
			"Cookie", identity.SessionCookie+"=user", identity.CSRFHeader, "1")
		if got := resp.StatusCode == http.StatusOK; got != tt.may {
			t.Errorf("%s for %s: %d %s", tt.allowed, tt.origin, resp.StatusCode, body)
		}
	}
}

func TestOriginsAndProxiesAreListsAsInAllFlags(t *testing.T) {
	t.Parallel()
	var cfg Config
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	cfg.RegisterFlags(fs, "127.0.0.1:0")
	if err := fs.Parse([]string{
		"--allowed-origins", "https://a.example.com, https://b.example.com", "--trusted-proxies", "10.0.0.0/8, 192.0.2.1,",
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"https://a.example.com", "https://b.example.com"}; !slices.Equal(cfg.AllowedOrigins, want) {
		t.Errorf("origins: %q", cfg.AllowedOrigins)
	}
	if want := []string{"10.0.0.0/8", "192.0.2.1"}; !slices.Equal(cfg.TrustedProxies, want) {
		t.Errorf("proxies: %q", cfg.TrustedProxies)
	}
}
