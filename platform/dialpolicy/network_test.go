package dialpolicy

import "testing"

func TestNetworkIsWhatOneCallerHasAllOf(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"192.0.2.7:1234":              "192.0.2.7",
		"[::ffff:192.0.2.7]:1234":     "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:1234": "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::1]:99":   "2001:db8:1:2::/64",
		"[2001:db8:1:3::1]:99":        "2001:db8:1:3::/64",
		"[fe80::1%eth0]:99":           "fe80::/64",
		"not an address":              "not an address",
	} {
		if got := Network(from); got != want {
			t.Errorf("%s: got %s, want %s", from, got, want)
		}
	}
}
