package loopback_test

import (
	"testing"

	"fairlead.dev/platform/loopback"
)

func TestHost(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "128.0.0.1": false, "[::1]": false, "127.1": false,
		"localhost.example.com": false, "127.0.0.1.example.com": false, "LOCALHOST.": false, "127.0.0.1:80": false,
	} {
		if got := loopback.Host(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}
