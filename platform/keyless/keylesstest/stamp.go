package keylesstest

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"math/big"
	"testing"
	"time"
)

// Stamper is an authority of timestamps (RFC 3161).
type Stamper struct {
	s          *Sigstore
	root, leaf *x509.Certificate
	key        *ecdsa.PrivateKey
}

// NewStamper makes one.
func NewStamper(t testing.TB) *Stamper {
	t.Helper()
	s, key := &Sigstore{t: t}, s256(t)
	a := &Stamper{s: s, key: s256(t)}
	a.root = s.certificate(&x509.Certificate{Subject: pkix.Name{CommonName: "timestamps"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign}, nil, key, key.Public())
	usage := a.der([]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 8}})
	a.leaf = s.certificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: "clock"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: usage}},
	}, a.root, key, a.key.Public())
	return a
}

// Authority is what a trusted root has of it in timestampAuthorities.
func (a *Stamper) Authority() map[string]any {
	return map[string]any{
		"certChain": map[string]any{"certificates": []any{map[string]any{"rawBytes": a.leaf.Raw}, map[string]any{"rawBytes": a.root.Raw}}},
		"validFor":  map[string]string{"start": time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)},
	}
}

func (a *Stamper) der(v any) []byte {
	a.s.t.Helper()
	text, err := asn1.Marshal(v)
	if err != nil {
		a.s.t.Fatal(err)
	}
	return text
}

type stampAttribute struct {
	ID     asn1.ObjectIdentifier
	Values []any `asn1:"set"`
}

// Stamp says that a signature was there at a time.
func (a *Stamper) Stamp(signature []byte, at time.Time) []byte {
	a.s.t.Helper()
	sha := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}}
	sumOf := func(text []byte) []byte {
		sum := sha256.Sum256(text)
		return sum[:]
	}
	type imprint struct {
		Algorithm pkix.AlgorithmIdentifier
		Sum       []byte
	}
	info := a.der(struct {
		Version int
		Policy  asn1.ObjectIdentifier
		Imprint imprint
		Serial  *big.Int
		Time    time.Time `asn1:"generalized"`
	}{1, asn1.ObjectIdentifier{1, 2, 3}, imprint{sha, sumOf(signature)}, big.NewInt(1), at.UTC().Truncate(time.Second)})
	kind := asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 1, 4}
	type list struct{ Certificates []struct{ Sum []byte } }
	attributes, err := asn1.MarshalWithParams([]stampAttribute{
		{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 3}, []any{kind}},
		{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}, []any{sumOf(info)}},
		{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 2, 47}, []any{list{[]struct{ Sum []byte }{{sumOf(a.leaf.Raw)}}}}},
	}, "set")
	if err != nil {
		a.s.t.Fatal(err)
	}
	by := a.s.sign(a.key, attributes)
	attributes[0] = 0xa0 // they are signed as a set, and kept with the tag of their place
	type name struct {
		Issuer asn1.RawValue
		Serial *big.Int
	}
	type signer struct {
		Version    int
		By         name
		Digest     pkix.AlgorithmIdentifier
		Attributes asn1.RawValue
		Algorithm  pkix.AlgorithmIdentifier
		Signature  []byte
	}
	type content struct {
		Type asn1.ObjectIdentifier
		Text []byte `asn1:"explicit,tag:0"`
	}
	type signed struct {
		Version int
		Digests []pkix.AlgorithmIdentifier `asn1:"set"`
		Content content
		Signers []signer `asn1:"set"`
	}
	type token struct {
		Type    asn1.ObjectIdentifier
		Content signed `asn1:"explicit,tag:0"`
	}
	return a.der(struct {
		Status struct{ Status int }
		Token  token
	}{Token: token{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}, signed{
		3,
		[]pkix.AlgorithmIdentifier{sha},
		content{kind, info},
		[]signer{{
			1,
			name{asn1.RawValue{FullBytes: a.leaf.RawIssuer}, a.leaf.SerialNumber},
			sha,
			asn1.RawValue{FullBytes: attributes},
			pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}},
			by,
		}},
	}}})
}

// promise is the extension with which the log says that it takes in a certificate of an issuer (SCT), which is without
// it yet.
func (s *Sigstore) promise(of, issuer *x509.Certificate) pkix.Extension {
	s.t.Helper()
	sum := sha256.Sum256(issuer.RawSubjectPublicKeyInfo)
	millis := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixMilli()))
	message := append([]byte{0, 0}, millis...)
	message = append(message, 0, 1)
	message = append(message, sum[:]...)
	n := len(of.RawTBSCertificate)
	message = append(message, byte(n>>16), byte(n>>8), byte(n))
	message = append(message, of.RawTBSCertificate...)
	message = append(message, 0, 0)
	counted := func(text []byte) []byte {
		return append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...)
	}
	one := append(append([]byte{0}, s.logID()...), millis...)
	one = append(one, 0, 0, 4, 3)
	one = append(one, counted(s.sign(s.log, message))...)
	value, err := asn1.Marshal(counted(counted(one)))
	if err != nil {
		s.t.Fatal(err)
	}
	return pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}, Value: value}
}
