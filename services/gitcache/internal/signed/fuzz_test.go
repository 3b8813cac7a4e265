package signed_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"testing"
	"time"

	"fairlead.dev/services/gitcache/internal/gittest"
	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/signed"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// publicKey is one in PEM, whose private key is gone.
func publicKey(t testing.TB) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// FuzzSignature: nothing is signed by a key whose private half is gone.
func FuzzSignature(f *testing.F) {
	f.Add([]byte(`{"critical":{"identity":{"docker-reference":"r/x"},"image":{"docker-manifest-digest":"`+digest+
		`"},"type":"cosign container image signature"}}`), base64.StdEncoding.EncodeToString([]byte("x")), false)
	f.Add([]byte(`{"dsseEnvelope":{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"eA=="}]}}`), "", true)
	t, err := signed.New(signed.Policy{Provider: signed.Cosign, Keys: []string{publicKey(f)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(tt *testing.T, payload []byte, signature string, isBundle bool) {
		by, no := t.Signature(oci.Signature{Payload: payload, IsBundle: isBundle, Signature: signature},
			signed.Subject{Digest: digest, Repository: "r/x"}, time.Now())
		if by != "" || no == nil {
			tt.Errorf("signed by %q", by)
		}
	})
}

// FuzzProvenance: nothing but what was signed counts.
func FuzzProvenance(f *testing.F) {
	ada := gittest.NewOpenPGP(f, "ed25519")
	const text = "name: web\nversion: 1.0.0\n\n...\nfiles:\n  web-1.0.0.tgz: " + digest + "\n"
	f.Add([]byte(ada.Clearsign(f, text)))
	f.Add([]byte("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nx\n-----BEGIN PGP SIGNATURE-----\n"))
	t, err := signed.New(signed.Policy{Provider: signed.Provenance, Keys: []string{ada.Public}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(tt *testing.T, prov []byte) {
		_, sum, no := t.Provenance(prov, "web-1.0.0.tgz", time.Now())
		if no == nil && "sha256:"+sum != digest {
			tt.Errorf("the package is %s", sum)
		}
	})
}
