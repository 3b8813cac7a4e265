package signed_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/services/gitcache/internal/oci"
	"fairlead.dev/services/gitcache/internal/signed"
)

// TestLargerCurvesCountWithTheirHashes: payloads are signed by SHA-256 with each curve, and bundles by the hash of the
// curve's size.
func TestLargerCurvesCountWithTheirHashes(t *testing.T) {
	t.Parallel()
	for _, is := range []struct {
		curve elliptic.Curve
		hash  crypto.Hash
		good  bool
	}{
		{elliptic.P256(), crypto.SHA256, true},
		{elliptic.P384(), crypto.SHA256, true},
		{elliptic.P384(), crypto.SHA384, true},
		{elliptic.P521(), crypto.SHA256, true},
		{elliptic.P521(), crypto.SHA512, true},
		{elliptic.P256(), crypto.SHA512, false},
		{elliptic.P384(), crypto.SHA512, false},
	} {
		name := is.curve.Params().Name + " " + is.hash.String()
		key, err := ecdsa.GenerateKey(is.curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		trust, err := signed.New(signed.Policy{
			Provider: signed.Cosign,
			Keys:     []string{string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))},
		})
		if err != nil {
			t.Fatal(err)
		}
		sign := func(message []byte) []byte {
			h := is.hash.New()
			h.Write(message)
			sig, err := ecdsa.SignASN1(rand.Reader, key, h.Sum(nil))
			if err != nil {
				t.Fatal(err)
			}
			return sig
		}
		of := signed.Subject{Digest: digest, Repository: "r/x"}
		payload := []byte(`{"critical":{"identity":{"docker-reference":"r/x"},"image":{"docker-manifest-digest":"` +
			digest + `"},"type":"cosign container image signature"}}`)
		by, no := trust.Signature(oci.Signature{
			Payload:   payload,
			Signature: base64.StdEncoding.EncodeToString(sign(payload)),
		}, of, time.Now())
		if (no == nil) != is.good || is.good && !trust.Has(by) {
			t.Errorf("%s, a payload: by %q, refused: %v", name, by, no)
		}
		const kind = "application/vnd.in-toto+json"
		statement := fmt.Appendf(nil, `{"subject":[{"digest":{"sha256":%q}}],"predicateType":"https://sigstore.dev/cosign/sign/v1"}`, strings.TrimPrefix(digest, "sha256:"))
		bundle, err := json.Marshal(map[string]any{"dsseEnvelope": map[string]any{
			"payload": statement, "payloadType": kind,
			"signatures": []any{map[string]any{"sig": sign(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(statement), statement))}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, no := trust.Signature(oci.Signature{Payload: bundle, IsBundle: true}, of, time.Now()); (no == nil) != is.good {
			t.Errorf("%s, a bundle: refused: %v", name, no)
		}
	}
}
