package signed_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"fairlead.dev/services/gitcache/internal/signed"
)

// TestKeysThatCannotBeTrustedAreNamedAndNotRepeated by their number.
func TestKeysThatCannotBeTrustedAreNamedAndNotRepeated(t *testing.T) {
	t.Parallel()
	encode := func(kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	weakDER, err := x509.MarshalPKIXPublicKey(weak.Public())
	small := encode("PUBLIC KEY", weakDER, err)
	curve, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curveDER, err := x509.MarshalPKIXPublicKey(curve.Public())
	short := encode("PUBLIC KEY", curveDER, err)
	privateDER, err := x509.MarshalPKCS8PrivateKey(curve)
	private := encode("PRIVATE KEY", privateDER, err)
	good := publicKey(t)
	for name, is := range map[string]struct{ key, want string }{
		"private": {private, "verification key 2 is a private key"},
		"damaged": {"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "verification key 2 is a damaged public key"},
		"two":     {good + good, "verification key 2 is not one public key"},
		"nothing": {"x", "verification key 2 is not one public key"},
		"small":   {small, "1024 bits"},
		"curve":   {short, "less than 256 bits"},
	} {
		_, err := signed.New(signed.Policy{Provider: signed.Cosign, Keys: []string{good, is.key}})
		if err == nil || !strings.Contains(err.Error(), is.want) || strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := signed.New(signed.Policy{Provider: signed.Cosign}); err == nil {
		t.Error("no keys are taken")
	}
	if _, err := signed.New(signed.Policy{Provider: "of-a-later-release", Keys: []string{good}}); err == nil ||
		!strings.Contains(err.Error(), "of-a-later-release") {
		t.Errorf("an unknown provider is taken: %v", err)
	}
}
