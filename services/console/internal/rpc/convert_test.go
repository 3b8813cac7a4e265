package rpc

import "testing"

func TestAnAgentIsBehindTheHub(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ agent, hub, want string }{
		{"v1.2.3", "v1.2.3", ""},
		{"v1.2.3", "v1.2.4", "1 patch behind v1.2.4"},
		{"v1.2.3", "v1.4.0", "2 minor versions behind v1.4.0"},
		{"v1.9.3", "v2.0.0", "1 major version behind v2.0.0"},
		{"v2.0.0", "v1.9.3", ""},
		{"v1.2.3", "v1.2.3-4-g0123456", ""},
		{"v1.2.3-rc.1", "1.3.0", "1 minor version behind 1.3.0"},
		{"", "v1.2.3", ""},
		{"dev-0123456789ab", "v1.2.3", ""},
		{"v1.2.3", "1234567-dirty", ""}, // a commit, of digits only
	} {
		if got := skew(c.agent, c.hub); got != c.want {
			t.Errorf("agent %q, hub %q: got %q, want %q", c.agent, c.hub, got, c.want)
		}
	}
}
