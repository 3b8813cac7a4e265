package fetch_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"fairlead.dev/platform/dialpolicy"
	"fairlead.dev/services/gitcache/internal/fetch/gitwire"
	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/upstream"
)

func TestOnlyPublicAddressesAreDialledByDefault(t *testing.T) {
	t.Parallel()
	policies := map[string]*upstream.Policy{"nil": nil, "empty": upstream.NewPolicy(nil)}
	for name, p := range policies {
		for _, public := range []string{
			"140.82.121.4:443", "8.8.8.8:22", "172.32.0.1:443", "100.128.0.1:443",
			"[2606:50c0:8000::153]:443", "[::ffff:8.8.8.8]:443",
		} {
			if err := p.Control("tcp", public, nil); err != nil {
				t.Errorf("%s policy, %s: %v", name, public, err)
			}
		}
		for address, kind := range map[string]string{
			"127.0.0.1:443": "loopback", "127.9.9.9:443": "loopback", "[::1]:443": "loopback",
			"[::ffff:127.0.0.1]:443": "loopback",
			"10.0.0.1:443":           "private", "172.16.0.1:22": "private", "172.31.255.255:22": "private",
			"192.168.1.1:443": "private", "[::ffff:10.1.2.3]:443": "private",
			"[fd00::1]:443": "private", "[fec0::1]:443": "private", "100.64.0.1:443": "carrier-grade NAT",
			"100.100.100.200:80": "metadata",
			"169.254.169.254:80": "cloud metadata", "[::ffff:169.254.169.254]:80": "cloud metadata",
			"[fe80::1%eth0]:443": "link-local", "[fd00:ec2::254]:80": "metadata",
			"168.63.129.16:80": "cloud platform", "192.0.0.192:80": "reserved",
			"0.0.0.0:443": "unspecified", "0.1.2.3:443": "unspecified", "[::]:443": "unspecified",
			"224.0.0.1:443": "multicast", "[ff02::1]:443": "multicast", "255.255.255.255:443": "reserved",
			"240.0.0.1:443": "reserved",
			"192.0.2.1:443": "documentation", "198.51.100.1:443": "documentation", "203.0.113.1:443": "documentation",
			"[2001:db8::1]:443": "documentation", "[3fff::1]:443": "documentation",
			"198.19.0.1:443": "benchmarks", "[64:ff9b::808:808]:443": "NAT64", "[64:ff9b:1::1]:443": "NAT64",
			"[2002:7f00:1::]:443": "6to4", "[2001::1]:443": "reserved",
			"[::127.0.0.1]:443": "reserved", "[4000::1]:443": "reserved",
			"nonsense": "can't be judged", "name.example.com:443": "can't be judged",
		} {
			err := p.Control("tcp", address, nil)
			wantError(t, err, upstream.KindRefused, kind)
			if strings.Contains(err.Error(), "judged") {
				continue
			}
			wantError(t, err, upstream.KindRefused, "--allow-addresses")
		}
	}
}

func policy(t *testing.T, allow ...string) *upstream.Policy {
	t.Helper()
	prefixes, err := dialpolicy.Parse(allow)
	if err != nil {
		t.Fatal(err)
	}
	return upstream.NewPolicy(prefixes)
}

func TestAllowedRangesAreDialled(t *testing.T) {
	t.Parallel()
	p := policy(t, "10.0.0.0/8", "fd00::/8", "64:ff9b::/96", "2002::/16", "2002::/16")
	for address, ok := range map[string]bool{
		"10.1.2.3:443": true, "[::ffff:10.1.2.3]:443": true, "[fd12::1]:443": true,
		"192.168.0.1:443": false, "[fe80::1]:443": false, "127.0.0.1:443": false,
		// Behind a translator is an IPv4 address, which has to be allowed itself.
		"[64:ff9b::808:808]:443": true, "[64:ff9b::a01:203]:443": true, "[64:ff9b::a9fe:a9fe]:80": false,
		"[2002:7f00:1::]:443": false, "[2002:808:808::]:443": true,
	} {
		if err := p.Control("tcp", address, nil); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestRangesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"10.0.0.1", "10.0.0.0/33", "private", "::ffff:10.0.0.0/104", ""} {
		if _, err := dialpolicy.Parse([]string{"127.0.0.0/8", bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestANameThatStandsForASpecialAddressGetsNowhere(t *testing.T) {
	t.Parallel()
	server := gittest.NewTLSServer(t)
	server.NewRepo(t, "shop.git")
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t, upstream.Options{Addresses: upstream.NewPolicy(nil)})
	for _, raw := range []string{
		"https://localhost:" + port + "/shop.git", "https://127.0.0.1:" + port + "/shop.git",
		"http://localhost:" + port + "/shop.git",
	} {
		_, err = f.List(t.Context(), remote(t, raw), gitwire.Names{})
		t.Log(raw, "->", err)
		wantError(t, err, upstream.KindRefused, strings.Split(raw, "/")[2][:9], "loopback", "--allow-addresses")
	}
	if n := len(server.Log()); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// rebinding is a DNS server that gives another address each time it is asked.
func rebinding(t *testing.T, addresses ...[4]byte) *net.Resolver {
	t.Helper()
	var asked atomic.Int64
	pc, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = pc.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response = true
			m.Additionals = nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				i := int(asked.Add(1)-1) % len(addresses)
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body:   &dnsmessage.AResource{A: addresses[i]},
				}}
			}
			if b, err := m.Pack(); err == nil {
				_, _ = pc.WriteTo(b, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

func TestRebindingANameChangesNothing(t *testing.T) {
	t.Parallel()
	// A program that checks the name first and dials it then sees a public address, and dials the machine itself.
	resolver := rebinding(t, [4]byte{93, 184, 215, 14}, [4]byte{127, 0, 0, 1})
	first, err := resolver.LookupNetIP(t.Context(), "ip4", "git.rebind.test.")
	if err != nil || first[0].String() != "93.184.215.14" {
		t.Fatalf("resolved to %v, %v", first, err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	d := net.Dialer{Control: upstream.NewPolicy(nil).Control, Resolver: resolver, Timeout: 10 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp4", "git.rebind.test.:"+port)
	if err == nil {
		_ = c.Close()
	}
	wantError(t, err, upstream.KindRefused, "127.0.0.1 is loopback")
}

func TestRedirectsToSpecialAddressesAreRefused(t *testing.T) {
	t.Parallel()
	server := gittest.NewTLSServer(t)
	f := newFetcher(t, upstream.Options{RootCAs: roots(t, server)})
	for to, words := range map[string]string{
		"https://169.254.169.254":          "cloud metadata",
		"https://[::ffff:169.254.169.254]": "cloud metadata",
		"https://10.0.0.1":                 "private",
		"https://0.0.0.0":                  "unspecified",
		"https://[fd00:ec2::254]":          "metadata",
		"http://127.0.0.1":                 "from https to http",
		"http://169.254.169.254":           "not allowed",
	} {
		server.SetFault(gittest.Redirect(to))
		_, err := f.List(t.Context(), remote(t, server.URL+"/shop.git"), gitwire.Names{})
		t.Log(to, "->", err)
		wantError(t, err, upstream.KindRefused, words)
	}
}

func TestRedirectsWithoutEndAreRefused(t *testing.T) {
	t.Parallel()
	server := gittest.NewServer(t)
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "/again"+r.URL.RequestURI(), http.StatusFound)
		return true
	})
	_, err := newFetcher(t, upstream.Options{}).List(t.Context(), remote(t, server.URL+"/shop.git"), gitwire.Names{})
	wantError(t, err, upstream.KindRefused, "redirects without end")
	if n := len(server.Log()); n > 10 {
		t.Errorf("%d requests", n)
	}
}
