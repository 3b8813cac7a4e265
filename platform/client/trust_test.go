package client_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"fairlead.dev/platform/client"
	"fairlead.dev/platform/localca"
)

// publicCA is an authority that "the system" of these tests knows. Go reads SSL_CERT_FILE once.
var publicCA localca.Files

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "public-ca")
	if err == nil {
		defer os.RemoveAll(dir)
		publicCA, err = localca.Ensure(dir, "127.0.0.1")
	}
	if err == nil {
		err = os.Setenv("SSL_CERT_FILE", publicCA.CAFile)
	}
	if err == nil {
		err = os.Setenv("SSL_CERT_DIR", filepath.Join(dir, "none"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func serveTLS(t *testing.T, files localca.Files) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = srv.ServeTLS(l, files.CertFile, files.KeyFile) }()
	t.Cleanup(func() { _ = srv.Close() })
	return "https://" + l.Addr().String()
}

// A forged entry in Redis may name any host, and everybody can have a certificate of a public
// authority for theirs: with an authority of the hub's own, only that one may get our token.
func TestOnlyTheHubsAuthorityIsTrustedWhereItIsGiven(t *testing.T) {
	t.Parallel()
	hubCA, err := localca.Ensure(t.TempDir(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(hubCA.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	hub, stranger := serveTLS(t, hubCA), serveTLS(t, publicCA)
	for name, c := range map[string]struct {
		cfg           client.Config
		hub, stranger bool // are they trusted?
	}{
		"the system's":      {client.Config{}, false, true},
		"the hub's":         {client.Config{CAFile: hubCA.CAFile}, true, false},
		"the hub's, by PEM": {client.Config{CAPEM: pem}, true, false},
	} {
		hc := newClient(t, c.cfg)
		for url, want := range map[string]bool{hub: c.hub, stranger: c.stranger} {
			resp, err := hc.Get(url)
			if err == nil {
				resp.Body.Close()
			}
			if (err == nil) != want {
				t.Errorf("authorities %s: %s (the hub is %s): got error %v", name, url, hub, err)
			}
		}
	}
}

// An address from coordination is a hint that others can forge: our token goes nowhere in clear text.
func TestAddressesThatWouldLeakTheTokenAreRefused(t *testing.T) {
	t.Parallel()
	for url, good := range map[string]bool{
		"https://10.0.0.1:7401": true, "http://127.0.0.1:7401": true, "http://[::1]:7401": true,
		"http://localhost:7401": true,
		"http://10.0.0.1:7401":  false, "https://user:x@host": false, "": false, "ftp://host": false,
		"https://": false, "http://127.0.0.1.evil.example": false,
	} {
		if err := client.CheckPeer(url); (err == nil) != good {
			t.Errorf("%q: %v", url, err)
		}
	}
}
