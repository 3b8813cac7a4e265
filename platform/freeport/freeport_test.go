package freeport_test

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/platform/freeport"
)

func TestAddressesAreFreeAndApartFromThoseOfOutgoingConnections(t *testing.T) {
	t.Parallel()
	outgoing, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes both from one range
	if err != nil {
		t.Fatal(err)
	}
	defer outgoing.Close()
	seen := map[string]bool{}
	for range 10 {
		addrs, err := freeport.Addresses(20)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			if seen[a] {
				t.Errorf("%s comes twice", a)
			}
			seen[a] = true
			_, port, err := net.SplitHostPort(a)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := strconv.Atoi(port); err != nil || n >= outgoing.Addr().(*net.TCPAddr).Port {
				t.Errorf("%s may be that of an outgoing connection", a)
			} else if n <= 10_080 {
				t.Errorf("%s is of the ports among which are some that browsers refuse", a)
			}
			l, err := net.Listen("tcp", a)
			if err != nil {
				t.Errorf("%s is not free: %v", a, err)
				continue
			}
			_ = l.Close()
		}
	}
}

func TestAnAddressOfAnotherMachineHasNoPorts(t *testing.T) {
	t.Parallel()
	if addrs, err := freeport.On("192.0.2.1", 1); err == nil || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("%v, %v", addrs, err)
	}
}
