package signin

import "testing"

func TestALoginLeadsBackToThisHostOnly(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]bool{
		"/": true, "/services?cluster=edge-1": true, "": false, "services": false, "https://evil.example.com/": false,
		"//evil.example.com": false, "/\\evil.example.com": false, "/\t/evil.example.com": false,
		"/\n/evil.example.com": false, "/\r/evil.example.com": false,
	} {
		if got := isOwnPath(to); got != want {
			t.Errorf("%q: got %t, want %t", to, got, want)
		}
	}
}
