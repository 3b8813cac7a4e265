// Package keylesstest makes signatures without a key of the signer's own for tests: with an authority and a
// transparency log of its own.
package keylesstest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"testing"
	"time"
)

// Statement is the type of what cosign signs.
const Statement = "application/vnd.in-toto+json"

// Sigstore is an authority with an intermediate one, and a log.
type Sigstore struct {
	t                  testing.TB
	root, intermediate *x509.Certificate
	issuing, log       *ecdsa.PrivateKey
}

// New makes one.
func New(t testing.TB) *Sigstore {
	t.Helper()
	s := &Sigstore{t: t, issuing: s256(t), log: s256(t)}
	key := s256(t)
	s.root = s.certificate(&x509.Certificate{Subject: pkix.Name{CommonName: "root"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign}, nil, key, key.Public())
	s.intermediate = s.certificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: "intermediate"}, IsCA: true,
		KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}, s.root, key, s.issuing.Public())
	return s
}

func s256(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (s *Sigstore) certificate(c, parent *x509.Certificate, by *ecdsa.PrivateKey, key crypto.PublicKey) *x509.Certificate {
	s.t.Helper()
	c.BasicConstraintsValid = true
	if c.SerialNumber == nil {
		c.SerialNumber = big.NewInt(time.Now().UnixNano())
	}
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour)
	}
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key, by)
	if err != nil {
		s.t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		s.t.Fatal(err)
	}
	return made
}

// Root is the trusted root, as trusted_root.json has it.
func (s *Sigstore) Root() string {
	s.t.Helper()
	from := map[string]string{"start": time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)}
	return s.json(map[string]any{
		"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
		"tlogs":     []any{map[string]any{"publicKey": map[string]any{"rawBytes": s.spki(), "validFor": from}, "logId": map[string]any{"keyId": s.logID()}}},
		"certificateAuthorities": []any{map[string]any{
			"certChain": map[string]any{"certificates": []any{map[string]any{"rawBytes": s.intermediate.Raw}, map[string]any{"rawBytes": s.root.Raw}}}, "validFor": from,
		}},
	})
}

func (s *Sigstore) json(v any) string {
	s.t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *Sigstore) spki() []byte {
	s.t.Helper()
	der, err := x509.MarshalPKIXPublicKey(s.log.Public())
	if err != nil {
		s.t.Fatal(err)
	}
	return der
}

func (s *Sigstore) logID() []byte {
	sum := sha256.Sum256(s.spki())
	return sum[:]
}

// Signing says how a signature is made. The zero value is a good one by a workflow, of now.
type Signing struct {
	Subject, Issuer string
	Payload         []byte
	Time            time.Time // that the log signs
	Begin           time.Time // of the certificate
	Of              *Sigstore // whose log takes it in; nil: this one's
	Taken           *Sigstore // whose log takes in the certificate, too (SCT); nil: none
	Usage           []x509.ExtKeyUsage
	// Body changes the log's entry before the log signs it, and Material what the bundle has beside its envelope.
	Body     func(entry map[string]any)
	Material func(material map[string]any)
	Bundle   func(bundle map[string]any) // changes all of it, at last
}

// The signer of the zero Signing.
const (
	Subject = "https://ci.example.com/acme/shop/release@refs/heads/main"
	Issuer  = "https://token.ci.example.com"
)

// Bundle is a signature of a payload, as cosign keeps it.
func (s *Sigstore) Bundle(how Signing) []byte {
	s.t.Helper()
	how = how.withDefaults(s)
	key := s256(s.t)
	subject, err := url.Parse(how.Subject)
	if err != nil {
		s.t.Fatal(err)
	}
	issuer, err := asn1.MarshalWithParams(how.Issuer, "utf8")
	if err != nil {
		s.t.Fatal(err)
	}
	is := &x509.Certificate{
		URIs: []*url.URL{subject}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: how.Usage,
		NotBefore: how.Begin, NotAfter: how.Begin.Add(10 * time.Minute),
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}, Value: issuer}},
	}
	if how.Taken != nil {
		before := s.certificate(is, s.intermediate, s.issuing, key.Public())
		is.ExtraExtensions = append(is.ExtraExtensions, how.Taken.promise(before, s.intermediate))
	}
	cert := s.certificate(is, s.intermediate, s.issuing, key.Public())
	signature := s.sign(key, fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(Statement), Statement, len(how.Payload), how.Payload))
	sum := sha256.Sum256(how.Payload)
	entry := map[string]any{"apiVersion": "0.0.1", "kind": "dsse", "spec": map[string]any{
		"payloadHash": map[string]any{"algorithm": "sha256", "value": hex.EncodeToString(sum[:])},
		"signatures":  []any{map[string]any{"signature": signature, "verifier": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})}},
	}}
	if how.Body != nil {
		how.Body(entry)
	}
	material := map[string]any{"certificate": map[string]any{"rawBytes": cert.Raw}, "tlogEntries": []any{how.Of.enter([]byte(s.json(entry)), how.Time)}}
	if how.Material != nil {
		how.Material(material)
	}
	bundle := map[string]any{
		"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": material,
		"dsseEnvelope": map[string]any{"payload": how.Payload, "payloadType": Statement, "signatures": []any{map[string]any{"sig": signature}}},
	}
	if how.Bundle != nil {
		how.Bundle(bundle)
	}
	return []byte(s.json(bundle))
}

func (how Signing) withDefaults(s *Sigstore) Signing {
	now := time.Now().Truncate(time.Second)
	if how.Subject == "" {
		how.Subject = Subject
	}
	if how.Issuer == "" {
		how.Issuer = Issuer
	}
	if how.Time.IsZero() {
		how.Time = now
	}
	if how.Begin.IsZero() {
		how.Begin = now.Add(-time.Minute)
	}
	if how.Of == nil {
		how.Of = s
	}
	if how.Usage == nil {
		how.Usage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	}
	return how
}

// enter is what the log says of an entry.
func (s *Sigstore) enter(body []byte, at time.Time) map[string]any {
	s.t.Helper()
	const index = 7
	text := base64.StdEncoding.EncodeToString(body)
	signed := fmt.Appendf(nil, `{"body":"%s","integratedTime":%d,"logID":"%x","logIndex":%d}`, text, at.Unix(), s.logID(), index)
	// The log's tree has three leaves, of which this is the second.
	first, last, leaf := hashOf(0, []byte("first")), hashOf(0, []byte("last")), hashOf(0, body)
	root := hashOf(1, hashOf(1, first, leaf), last)
	state := fmt.Sprintf("log.example.com - 1\n3\n%s\n", base64.StdEncoding.EncodeToString(root))
	by := base64.StdEncoding.EncodeToString(append(s.logID()[:4], s.sign(s.log, []byte(state))...))
	return map[string]any{
		"inclusionProof": map[string]any{
			"logIndex": "1", "treeSize": "3", "rootHash": root, "hashes": [][]byte{first, last},
			"checkpoint": map[string]any{"envelope": state + "\n\u2014 log.example.com " + by + "\n"},
		},
		"logIndex": fmt.Sprint(index), "logId": map[string]any{"keyId": s.logID()}, "kindVersion": map[string]any{"kind": "dsse", "version": "0.0.1"},
		"integratedTime": fmt.Sprint(at.Unix()), "inclusionPromise": map[string]any{"signedEntryTimestamp": s.sign(s.log, signed)}, "canonicalizedBody": body,
	}
}

func hashOf(kind byte, parts ...[]byte) []byte {
	sum := sha256.Sum256(append([]byte{kind}, bytes.Join(parts, nil)...))
	return sum[:]
}

func (s *Sigstore) sign(key *ecdsa.PrivateKey, message []byte) []byte {
	s.t.Helper()
	sum := sha256.Sum256(message)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		s.t.Fatal(err)
	}
	return signature
}
