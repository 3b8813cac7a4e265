package localca

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func contents(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestServerIsTrustedThroughTheAuthority(t *testing.T) {
	t.Parallel()
	files, err := Ensure(filepath.Join(t.TempDir(), "tls"), "127.0.0.1", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	defer srv.Close()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(contents(t, files.CAFile))) {
		t.Fatal("no certificate in the CA file")
	}
	hc := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
	}
	defer hc.CloseIdleConnections()
	resp, err := hc.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

func TestKeysAreForTheirOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Ensure(dir, "localhost"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.key", "server.key"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, ".tmp-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files left: %v, %v", left, err)
	}
}

func TestWhatIsStillGoodIsKept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		after                 time.Duration
		hosts                 []string
		damage                string
		wantNewCA, wantNewOne bool
	}{
		"a day later":           {after: day, hosts: []string{"localhost", "127.0.0.1"}},
		"fewer hosts":           {after: day, hosts: []string{"127.0.0.1"}},
		"another host":          {after: day, hosts: []string{"hub.example.com"}, wantNewOne: true},
		"near the server's end": {after: 61 * day, hosts: []string{"localhost"}, wantNewOne: true},
		"near the CA's end": {
			after: 9*365*day + day, hosts: []string{"localhost"}, wantNewCA: true, wantNewOne: true,
		},
		"clock far in the past":   {after: -10 * day, hosts: []string{"localhost"}, wantNewCA: true, wantNewOne: true},
		"half a certificate":      {hosts: []string{"localhost"}, damage: "server.crt", wantNewOne: true},
		"half a key":              {hosts: []string{"localhost"}, damage: "server.key", wantNewOne: true},
		"half an authority":       {hosts: []string{"localhost"}, damage: "ca.crt", wantNewCA: true, wantNewOne: true},
		"half an authority's key": {hosts: []string{"localhost"}, damage: "ca.key", wantNewCA: true, wantNewOne: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			files, err := ensure(dir, "server", now, []string{"localhost", "127.0.0.1"})
			if err != nil {
				t.Fatal(err)
			}
			ca, cert := contents(t, files.CAFile), contents(t, files.CertFile)
			if c.damage != "" {
				if err := os.Truncate(filepath.Join(dir, c.damage), 40); err != nil {
					t.Fatal(err)
				}
			}
			if files, err = ensure(dir, "server", now.Add(c.after), c.hosts); err != nil {
				t.Fatal(err)
			}
			if got := contents(t, files.CAFile) != ca; got != c.wantNewCA {
				t.Errorf("new authority: %v, want %v", got, c.wantNewCA)
			}
			if got := contents(t, files.CertFile) != cert; got != c.wantNewOne {
				t.Errorf("new certificate: %v, want %v", got, c.wantNewOne)
			}
			got, err := load(files.CertFile, files.KeyFile)
			if err != nil {
				t.Fatal(err)
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM([]byte(contents(t, files.CAFile)))
			for _, host := range c.hosts {
				if _, err := got.cert.Verify(x509.VerifyOptions{
					DNSName: host, Roots: roots, CurrentTime: now.Add(c.after),
				}); err != nil {
					t.Errorf("certificate is not good for %s: %v", host, err)
				}
			}
		})
	}
}
