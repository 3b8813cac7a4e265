// Package signedtest signs as notation does, for tests.
package signedtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// Notary signs with a certificate: its own authority's, or one that an authority issued.
type Notary struct {
	Key   crypto.Signer
	Chain []*x509.Certificate // its own first
}

// NewKey makes a key: P-256, P-384, P-521, or RSA of so many bits.
func NewKey(t testing.TB, kind string) crypto.Signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch kind {
	case "P-256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "P-384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "P-521":
		key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "RSA-2048":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case "RSA-3072":
		key, err = rsa.GenerateKey(rand.Reader, 3072)
	default:
		t.Fatalf("no key of kind %q", kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Subject is one of an organization.
func Subject(organization, name string) pkix.Name {
	return pkix.Name{
		Country: []string{"US"}, Province: []string{"WA"}, Organization: []string{organization}, CommonName: name,
	}
}

// Authority makes a certificate that issues others.
func Authority(t testing.TB, name string) *Notary {
	t.Helper()
	return issue(t, nil, NewKey(t, "P-256"), authority(name))
}

// Authority makes an authority below this one.
func (n *Notary) Authority(t testing.TB, name string) *Notary {
	t.Helper()
	return issue(t, n, NewKey(t, "P-256"), authority(name))
}

func authority(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: Subject("Example", name), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

// Signer makes a certificate that signs, issued by this authority. change may alter it before.
func (n *Notary) Signer(t testing.TB, kind, organization, name string, change func(*x509.Certificate)) *Notary {
	t.Helper()
	cert := &x509.Certificate{
		Subject: Subject(organization, name), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	if change != nil {
		change(cert)
	}
	return issue(t, n, NewKey(t, kind), cert)
}

// Alone makes a certificate that signs and is its own authority.
func Alone(t testing.TB, organization, name string) *Notary {
	t.Helper()
	cert := &x509.Certificate{Subject: Subject(organization, name), KeyUsage: x509.KeyUsageDigitalSignature}
	return issue(t, nil, NewKey(t, "P-256"), cert)
}

func issue(t testing.TB, by *Notary, key crypto.Signer, cert *x509.Certificate) *Notary {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	cert.SerialNumber = serial
	if cert.NotBefore.IsZero() {
		cert.NotBefore, cert.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, signer := cert, key
	var above []*x509.Certificate
	if by != nil {
		parent, signer, above = by.Chain[0], by.Key, by.Chain
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Notary{Key: key, Chain: append([]*x509.Certificate{made}, above...)}
}

// PEM is its certificate.
func (n *Notary) PEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: n.Chain[0].Raw}))
}

// Protected is what a signature of a notary says of itself.
func (n *Notary) Protected() map[string]any {
	return map[string]any{
		"alg": n.algorithm(), "cty": "application/vnd.cncf.notary.payload.v1+json",
		"crit":                         []string{"io.cncf.notary.signingScheme"},
		"io.cncf.notary.signingScheme": "notary.x509", "io.cncf.notary.signingTime": time.Now().UTC().Format(time.RFC3339),
	}
}

func (n *Notary) algorithm() string {
	switch key := n.Key.(type) {
	case *ecdsa.PrivateKey:
		return map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[key.Curve.Params().BitSize]
	case *rsa.PrivateKey:
		return map[int]string{2048: "PS256", 3072: "PS384", 4096: "PS512"}[key.N.BitLen()]
	}
	return ""
}

// Payload is what is signed of a manifest.
func Payload(digest string) []byte {
	return encode(map[string]any{"targetArtifact": map[string]any{
		"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": 7,
	}})
}

// Envelope is the signature of a manifest.
func (n *Notary) Envelope(t testing.TB, digest string) []byte {
	t.Helper()
	return n.Sign(t, n.Protected(), Payload(digest))
}

// Sign makes an envelope of anything.
func (n *Notary) Sign(t testing.TB, protected map[string]any, payload []byte) []byte {
	t.Helper()
	head, body := base64.RawURLEncoding.EncodeToString(encode(protected)), base64.RawURLEncoding.EncodeToString(payload)
	var chain [][]byte
	for _, c := range n.Chain {
		chain = append(chain, c.Raw)
	}
	return encode(map[string]any{
		"payload": body, "protected": head,
		"signature": base64.RawURLEncoding.EncodeToString(n.raw(t, []byte(head+"."+body))),
		"header":    map[string]any{"x5c": chain, "io.cncf.notary.signingAgent": "test"},
	})
}

// raw is a signature as JWS has it.
func (n *Notary) raw(t testing.TB, message []byte) []byte {
	t.Helper()
	kind := map[string]crypto.Hash{
		"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512,
	}[n.algorithm()[2:]]
	h := kind.New()
	h.Write(message)
	switch key := n.Key.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, key, h.Sum(nil))
		if err != nil {
			t.Fatal(err)
		}
		size := (key.Curve.Params().BitSize + 7) / 8
		return append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
	default:
		sig, err := n.Key.Sign(rand.Reader, h.Sum(nil), &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: kind})
		if err != nil {
			t.Fatal(err)
		}
		return sig
	}
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
