// Package signatures_test holds what Fairlead says of signatures against what those say who have defined them, in the
// same run: sigstore-go of Sigstore's bundles, and notation-core-go of notation's envelopes.
package signatures_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"google.golang.org/protobuf/encoding/protojson"

	"fairlead.dev/platform/keyless"
)

const statementType = "application/vnd.in-toto+json"

// sample is a bundle with the root that it is of.
type sample struct {
	bundle, root []byte
	sct          bool // its certificate is in a log of certificates
	subject      string
}

// samples are real bundles that sigstore-go has beside its code, with the root of the public Sigstore of then, and one
// of Rekor 2 with a timestamp, which sigstore-go makes.
func samples(t *testing.T) map[string]sample {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/sigstore/sigstore-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "pkg/testing/data", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	public := read("trusted-roots/public-good.json")
	made, madeRoot := rekor2(t)
	return map[string]sample{
		"promise and proof":       {read("bundles/sigstore.js@2.0.0-provenance.sigstore.json"), public, true, "https://github.com/sigstore/sigstore-js/.github/workflows/release.yml@refs/heads/main"},
		"promise":                 {read("bundles/dsse.sigstore.json"), public, true, "brian@dehamer.com"},
		"proof and timestamp":     {made, madeRoot, false, "ada@example.com"},
		"proof, timestamp, chain": {inChain(t, made), madeRoot, false, "ada@example.com"},
	}
}

// rekor2 is a bundle with an entry of Rekor 2 and a timestamp, and its root.
func rekor2(t *testing.T) (text, trusted []byte) {
	t.Helper()
	s, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	statement := []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"a","digest":{"sha256":"` +
		strings.Repeat("ab", 32) + `"}}],"predicateType":"https://example.com/x","predicate":{}}`)
	entity, err := s.AttestHashedRekordV2("ada@example.com", "https://issuer.example.com", statement)
	if err != nil {
		t.Fatal(err)
	}
	content, err := entity.SignatureContent()
	if err != nil {
		t.Fatal(err)
	}
	by, err := entity.VerificationContent()
	if err != nil {
		t.Fatal(err)
	}
	stamps, err := entity.Timestamps()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := entity.TlogEntries()
	if err != nil {
		t.Fatal(err)
	}
	entry, err := protojson.Marshal(entries[0].TransparencyLogEntry())
	if err != nil {
		t.Fatal(err)
	}
	text = encode(t, map[string]any{
		"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
		"verificationMaterial": map[string]any{
			"certificate":               map[string]any{"rawBytes": by.Certificate().Raw},
			"tlogEntries":               []any{json.RawMessage(entry)},
			"timestampVerificationData": map[string]any{"rfc3161Timestamps": []any{map[string]any{"signedTimestamp": stamps[0]}}},
		},
		"dsseEnvelope": map[string]any{"payload": statement, "payloadType": statementType, "signatures": []any{map[string]any{"sig": content.Signature()}}},
	})
	return text, rootOf(t, s)
}

// rootOf is the trusted root of a Sigstore that sigstore-go plays.
func rootOf(t *testing.T, s *ca.VirtualSigstore) []byte {
	t.Helper()
	between := func(from, to time.Time) map[string]any {
		return map[string]any{"start": from.UTC().Format(time.RFC3339), "end": to.UTC().Format(time.RFC3339)}
	}
	chain := func(certs ...*x509.Certificate) map[string]any {
		var all []any
		for _, c := range certs {
			all = append(all, map[string]any{"rawBytes": c.Raw})
		}
		return map[string]any{"certificates": all}
	}
	doc := map[string]any{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}
	for id, l := range s.RekorLogs() {
		key, err := x509.MarshalPKIXPublicKey(l.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := hex.DecodeString(id)
		if err != nil {
			t.Fatal(err)
		}
		doc["tlogs"] = []any{map[string]any{
			"baseUrl": l.BaseURL, "hashAlgorithm": "SHA2_256", "logId": map[string]any{"keyId": raw},
			"publicKey": map[string]any{"rawBytes": key, "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": between(l.ValidityPeriodStart, l.ValidityPeriodEnd)},
		}}
	}
	issuer := s.FulcioCertificateAuthorities()[0].(*root.FulcioCertificateAuthority)
	doc["certificateAuthorities"] = []any{map[string]any{"certChain": chain(append(issuer.Intermediates, issuer.Root)...), "validFor": between(issuer.ValidityPeriodStart, issuer.ValidityPeriodEnd)}}
	stamps := s.TimestampingAuthorities()[0].(*root.SigstoreTimestampingAuthority)
	certs := append(append([]*x509.Certificate{stamps.Leaf}, stamps.Intermediates...), stamps.Root)
	doc["timestampAuthorities"] = []any{map[string]any{"certChain": chain(certs...),
		"validFor": between(stamps.ValidityPeriodStart, stamps.ValidityPeriodEnd)}}
	return encode(t, doc)
}

// inChain is a bundle in the form before 0.3.
func inChain(t *testing.T, text []byte) []byte {
	t.Helper()
	doc := decode(t, text).(map[string]any)
	m := doc["verificationMaterial"].(map[string]any)
	m["x509CertificateChain"] = map[string]any{"certificates": []any{m["certificate"]}}
	delete(m, "certificate")
	doc["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.2"
	return encode(t, doc)
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func decode(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// judge is a verifier of bundles with one root: ours, or sigstore-go.
type judge func(text []byte) (subject string, err error)

func ours(t *testing.T, trusted []byte) judge {
	t.Helper()
	r, err := keyless.ParseRoot(string(trusted))
	if err != nil {
		t.Fatal(err)
	}
	return func(text []byte) (string, error) {
		var is struct {
			keyless.Bundle
			Envelope struct {
				Payload     []byte `json:"payload"`
				PayloadType string `json:"payloadType"`
				Signatures  []struct {
					Sig []byte `json:"sig"`
				} `json:"signatures"`
			} `json:"dsseEnvelope"`
		}
		if err := json.Unmarshal(text, &is); err != nil {
			return "", err
		}
		e := is.Envelope
		message := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
		signer, err := r.Verify(is.Bundle, e.Payload, message, e.Signatures[0].Sig)
		return signer.Subject, err
	}
}

func theirs(t *testing.T, trusted []byte, sct bool) judge {
	t.Helper()
	r, err := root.NewTrustedRootFromJSON(trusted)
	if err != nil {
		t.Fatal(err)
	}
	return func(text []byte) (string, error) {
		var b bundle.Bundle
		if err := b.UnmarshalJSON(text); err != nil {
			return "", err
		}
		options := []verify.VerifierOption{verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1)}
		if sct {
			options = append(options, verify.WithSignedCertificateTimestamps(1))
		}
		v, err := verify.NewVerifier(r, options...)
		if err != nil {
			return "", err
		}
		result, err := v.Verify(&b, verify.NewPolicy(verify.WithoutArtifactUnsafe(), verify.WithoutIdentitiesUnsafe()))
		if err != nil {
			return "", err
		}
		return result.Signature.Certificate.SubjectAlternativeName, nil
	}
}

func TestRealBundlesAreGood(t *testing.T) {
	t.Parallel()
	for name, s := range samples(t) {
		for by, verdict := range map[string]judge{"ours": ours(t, s.root), "sigstore-go": theirs(t, s.root, s.sct)} {
			if subject, err := verdict(s.bundle); err != nil || subject != s.subject {
				t.Errorf("%s, %s: signed by %q, %v", name, by, subject, err)
			}
		}
	}
}

// TestNoByteOfABundleCanBeAnother: each byte of a certificate, signature, log entry, promise, proof, checkpoint and
// timestamp is changed, one at a time. None of these bundles may count, neither for us nor, where it is asked, for
// sigstore-go.
func TestNoByteOfABundleCanBeAnother(t *testing.T) {
	t.Parallel()
	for name, s := range samples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := ours(t, s.root), theirs(t, s.root, s.sct)
			doc := decode(t, s.bundle)
			changes, asked := 0, 0
			changeAll(doc, nil, func(path string, at int) {
				changes++
				text := encode(t, doc)
				_, err := ours(text)
				if err == nil && !free(path, name) {
					t.Errorf("%s: byte %d may be another", path, at)
				}
				if changes%5 != 0 { // it takes sigstore-go long
					return
				}
				asked++
				if _, other := theirs(text); other != nil && err == nil {
					t.Errorf("%s: byte %d may be another, and for sigstore-go it may not: %v", path, at, other)
				} else if other == nil && err != nil {
					t.Logf("%s: byte %d is refused here alone: %v", path, at, err)
				}
			})
			if changes < 2000 || asked < 400 {
				t.Errorf("only %d bytes were changed, and sigstore-go asked %d times", changes, asked)
			}
			t.Logf("%d bytes were changed, and sigstore-go asked %d times", changes, asked)
		})
	}
}

// free tells what says nothing of a signature: the hint of a key, other certificates than the signer's in a chain, and
// a time that no log has signed, as Rekor 2 has none.
func free(path, of string) bool {
	return strings.HasSuffix(path, "/keyid") || strings.HasSuffix(path, "/integratedTime") &&
		!strings.HasPrefix(of, "promise") || strings.Contains(path, "/x509CertificateChain/certificates/") &&
		!strings.Contains(path, "/certificates/0/")
}

// changeAll changes each text and each byte below a value, one after the other, and changes it back.
func changeAll(v any, path []string, tried func(path string, at int)) {
	visit := func(key string, is any, set func(any)) {
		path := append(slices.Clone(path), key)
		if text, ok := is.(string); ok {
			changeText(key, text, set, func(at int) { tried("/"+strings.Join(path, "/"), at) })
			set(text)
			return
		}
		changeAll(is, path, tried)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			visit(key, v[key], func(to any) { v[key] = to })
		}
	case []any:
		for i, one := range v {
			visit(strconv.Itoa(i), one, func(to any) { v[i] = to })
		}
	}
}

func changeText(key, text string, set func(any), tried func(at int)) {
	if n, err := strconv.Atoi(text); err == nil {
		set(strconv.Itoa(n + 1))
		tried(0)
		return
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	isText := slices.Contains([]string{"envelope", "payloadType", "mediaType", "kind", "version"}, key)
	if isText || err != nil {
		raw = []byte(text)
	}
	masks := func(i int) []byte { return []byte{1 << (i % 7)} }
	if key == "signedTimestamp" || key == "envelope" { // not all of their form is signed
		masks = func(int) []byte { return []byte{1, 2, 4, 8, 16, 32, 64, 128} }
	}
	for i := range raw {
		for _, mask := range masks(i) {
			raw[i] ^= mask
			if isText || err != nil {
				set(string(raw))
			} else {
				set(base64.StdEncoding.EncodeToString(raw))
			}
			tried(i)
			raw[i] ^= mask
		}
	}
}
