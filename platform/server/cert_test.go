package server

import (
	"crypto/x509"
	"log/slog"
	"os"
	"testing"
	"time"

	"fairlead.dev/platform/localca"
)

func TestRenewedCertificateIsServedAndABrokenOneIsNot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, err := localca.Ensure(dir, "one.example.com")
	if err != nil {
		t.Fatal(err)
	}
	c, err := loadCertificate(files.CertFile, files.KeyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c.now = func() time.Time { return now }
	name := func() string {
		t.Helper()
		cert, err := c.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.DNSNames[0]
	}
	if _, err := localca.Ensure(dir, "another.example.com"); err != nil {
		t.Fatal(err)
	}
	if got := name(); got != "one.example.com" {
		t.Errorf("looked at the files again at once: %s", got)
	}
	now = now.Add(checkCertEvery)
	if got := name(); got != "another.example.com" {
		t.Errorf("renewed certificate: %s", got)
	}
	for _, damage := range []func() error{
		func() error { return os.WriteFile(files.CertFile, []byte("half"), 0o600) },
		func() error { return os.Remove(files.KeyFile) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		now = now.Add(checkCertEvery)
		if got := name(); got != "another.example.com" {
			t.Errorf("after damage: %s", got)
		}
	}
}
