package dialpolicy

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestPrivateNetworksAreForWhatAdministratorsNameAndMetadataForNobody(t *testing.T) {
	t.Parallel()
	strict, lenient := New(nil), NewPrivate(nil)
	for _, test := range []struct {
		address         string
		strict, lenient string // the kind that is refused; empty: it is allowed
	}{
		{"9.9.9.9", "", ""},
		{"2620:fe::fe", "", ""},
		{"10.20.0.1", "private", ""},
		{"::ffff:192.168.1.1", "private", ""},
		{"172.31.255.255", "private", ""},
		{"100.64.1.1", "private", ""},
		{"fd12:3456::1", "private", ""},
		{"127.0.0.1", "loopback", "loopback"},
		{"::1", "loopback", "loopback"},
		{"::ffff:127.0.0.1", "loopback", "loopback"},
		{"169.254.169.254", "metadata", "metadata"},
		{"::ffff:169.254.169.254", "metadata", "metadata"},
		{"100.100.100.200", "metadata", "metadata"},
		{"fd00:ec2::254", "metadata", "metadata"},
		{"fd00:c1::a9fe:a9fe", "metadata", "metadata"},
		{"fd20:ce::254", "metadata", "metadata"},
		{"168.63.129.16", "cloud", "cloud"},
		{"fe80::1%eth0", "link-local", "link-local"},
		{"0.0.0.0", "unspecified", "unspecified"},
		{"::", "unspecified", "unspecified"},
		{"224.0.0.1", "multicast", "multicast"},
		{"ff02::1", "multicast", "multicast"},
		{"64:ff9b::a9fe:a9fe", "translated", "translated"},
		{"64:ff9b::a00:1", "translated", "translated"},
		{"2002:7f00:1::1", "translated", "translated"},
		{"255.255.255.255", "broadcast", "broadcast"},
	} {
		for name, policy := range map[string]*Policy{test.strict: strict, test.lenient + " ": lenient} {
			want := strings.TrimSpace(name)
			err := policy.Check(netip.MustParseAddr(test.address))
			refused, ok := errors.AsType[*Refused](err)
			if ok != (want != "") || ok && !strings.Contains(refused.Kind, want) {
				t.Errorf("%s: got %v, want %q", test.address, err, want)
			}
		}
	}
}

func TestWhatTheOperatorListsIsAllowed(t *testing.T) {
	t.Parallel()
	listed, err := Parse([]string{"127.0.0.0/8", "64:ff9b::/96"})
	if err != nil {
		t.Fatal(err)
	}
	policy := NewPrivate(listed)
	for address, want := range map[string]bool{
		"127.0.0.1": true, "::ffff:127.0.0.1": true, "64:ff9b::7f00:1": true, "64:ff9b::a00:1": true,
		"::1": false, "64:ff9b::a9fe:a9fe": false, "169.254.169.254": false,
	} {
		if err := policy.Check(netip.MustParseAddr(address)); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestTheDialledAddressIsJudged gives Control what net.Dialer does.
func TestTheDialledAddressIsJudged(t *testing.T) {
	t.Parallel()
	control := Control(New(nil).Check)
	for address, want := range map[string]bool{
		"9.9.9.9:443": true, "[2620:fe::fe]:443": true, "127.0.0.1:80": false, "[::1]:80": false,
		"[fe80::1%lo]:80": false, "localhost:80": false,
	} {
		if err := control("tcp", address, nil); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}
