package console_test

import (
	"strings"
	"testing"

	"fairlead.dev/services/console"
)

// A mistake is told with the one flag that it is in.
func TestAMistakeNamesItsFlag(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*console.Config){
		"--advertise-console: ":      func(c *console.Config) { c.AdvertiseConsole = "127.0.0.1:7400" },
		"--advertise-distributors: ": func(c *console.Config) { c.AdvertiseDistributors = []string{"https://a.example.com", "b"} },
		"--oidc-client-id is needed": func(c *console.Config) {
			c.OIDC.Issuer, c.OIDC.UserClaim, c.OIDC.GroupsClaim = "https://id.example.com", "sub", "groups"
		},
	} {
		c := console.Config{DataDir: t.TempDir()}
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
