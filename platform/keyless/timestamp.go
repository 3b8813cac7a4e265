package keyless

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	_ "crypto/sha256" // the hashes of timestamps
	_ "crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"slices"
	"time"
)

// maxTimestampBytes of one timestamp: those of Sigstore have less than 1 KiB.
const maxTimestampBytes = 32 << 10

//nolint:gochecknoglobals // never changed: the names of what timestamps are made of (RFC 3161, RFC 5652, RFC 5816)
var (
	idSignedData          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	idTimestamp           = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 1, 4}
	idContentType         = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 3}
	idMessageDigest       = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}
	idSigningCertificate2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 2, 47}
	idExtKeyUsage         = asn1.ObjectIdentifier{2, 5, 29, 37}
)

// hashes of timestamps, by their names.
func hashes() []struct {
	id   asn1.ObjectIdentifier
	hash crypto.Hash
} {
	return []struct {
		id   asn1.ObjectIdentifier
		hash crypto.Hash
	}{
		{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}, crypto.SHA256},
		{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 2}, crypto.SHA384},
		{asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 3}, crypto.SHA512},
	}
}

// algorithms of signatures that fit to a key and a hash.
func algorithms(key crypto.PublicKey, hash crypto.Hash) []asn1.ObjectIdentifier {
	at := map[crypto.Hash]int{crypto.SHA256: 0, crypto.SHA384: 1, crypto.SHA512: 2}[hash]
	switch key.(type) {
	case *ecdsa.PublicKey:
		// Some name the hash with it, and some the key alone.
		return []asn1.ObjectIdentifier{{1, 2, 840, 10045, 4, 3, 2 + at}, {1, 2, 840, 10045, 2, 1}}
	case *rsa.PublicKey:
		return []asn1.ObjectIdentifier{{1, 2, 840, 113549, 1, 1, 11 + at}, {1, 2, 840, 113549, 1, 1, 1}}
	}
	return nil
}

type response struct {
	Status asn1.RawValue
	Token  struct {
		Type    asn1.ObjectIdentifier
		Content signedData `asn1:"explicit,tag:0"`
	}
}

type signedData struct {
	Version          int
	DigestAlgorithms []pkix.AlgorithmIdentifier `asn1:"set"`
	Content          struct {
		Type asn1.ObjectIdentifier
		Text []byte `asn1:"explicit,tag:0"`
	}
	Certificates asn1.RawValue `asn1:"optional,tag:0"`
	Signers      []signerInfo  `asn1:"set"` // a list of what is revoked may stand before them, and is not read
}

type signerInfo struct {
	Version int
	By      struct {
		Issuer asn1.RawValue
		Serial *big.Int
	}
	Digest     pkix.AlgorithmIdentifier
	Attributes asn1.RawValue `asn1:"tag:0"`
	Algorithm  pkix.AlgorithmIdentifier
	Signature  []byte
	Unsigned   asn1.RawValue `asn1:"optional,tag:1"`
}

type attribute struct {
	ID     asn1.ObjectIdentifier
	Values asn1.RawValue `asn1:"set"`
}

type timestampInfo struct {
	Version int
	Policy  asn1.ObjectIdentifier
	Imprint struct {
		Algorithm pkix.AlgorithmIdentifier
		Sum       []byte
	}
	Serial *big.Int
	Time   time.Time `asn1:"generalized"`
}

// timestamp reads when a signature was seen by an authority of the root (RFC 3161).
func (r *Root) timestamp(der, signature []byte) (at time.Time, err error) {
	wrong := errors.New("a timestamp that can't be read")
	var is response
	var status struct{ Status int }
	if len(der) > maxTimestampBytes {
		return at, wrong
	}
	if _, err := asn1.Unmarshal(der, &is); err != nil {
		return at, wrong
	}
	// It has one form only: what is read is all of it.
	if again, err := asn1.Marshal(is); err != nil || !bytes.Equal(again, der) {
		return at, wrong
	}
	data := &is.Token.Content
	if _, err := asn1.Unmarshal(is.Status.FullBytes, &status); err != nil || status.Status != 0 ||
		!is.Token.Type.Equal(idSignedData) || data.Version != 3 || !data.Content.Type.Equal(idTimestamp) || len(data.Signers) != 1 {
		return at, wrong
	}
	s := &data.Signers[0]
	hash := hashNamed(s.Digest)
	if !isList(s.Attributes) || data.Certificates.FullBytes != nil && !isList(data.Certificates) {
		return at, wrong
	}
	if hash == 0 || s.Version != 1 || s.Unsigned.FullBytes != nil || len(data.DigestAlgorithms) != 1 || hashNamed(data.DigestAlgorithms[0]) != hash {
		return at, wrong
	}
	var info timestampInfo
	if rest, err := asn1.Unmarshal(data.Content.Text, &info); err != nil || len(rest) > 0 || info.Version != 1 {
		return at, wrong
	}
	imprint := hashNamed(info.Imprint.Algorithm)
	if imprint == 0 || !bytes.Equal(info.Imprint.Sum, sumOf(imprint, signature)) {
		return at, errors.New("a timestamp that is for another signature")
	}
	embedded, err := x509.ParseCertificates(data.Certificates.Bytes)
	if err != nil {
		return at, wrong
	}
	for _, a := range r.timestamps {
		if !a.holds(info.Time) {
			continue
		}
		if leaf := a.leafOf(s, embedded); leaf != nil && s.isBy(leaf, hash, data) && a.mayStamp(leaf, info.Time) {
			return info.Time, nil
		}
	}
	return at, errors.New("a timestamp of no authority (timestampAuthorities) of the trusted root, or one that does not fit to it")
}

// isList tells whether a value has the tag of a list at its place, which is the first of those that may be left out.
func isList(v asn1.RawValue) bool { return len(v.FullBytes) > 0 && v.FullBytes[0] == 0xa0 }

// hashNamed is zero for one that is not known.
func hashNamed(a pkix.AlgorithmIdentifier) crypto.Hash {
	if p := a.Parameters.FullBytes; len(p) > 0 && !bytes.Equal(p, asn1.NullBytes) {
		return 0
	}
	for _, h := range hashes() {
		if h.id.Equal(a.Algorithm) {
			return h.hash
		}
	}
	return 0
}

func sumOf(h crypto.Hash, text []byte) []byte {
	w := h.New()
	w.Write(text)
	return w.Sum(nil)
}

// leafOf is the certificate that a timestamp says it is signed with: the one that the root names, or, if it names none,
// one of the timestamp's own. If both name one they have to be the same.
func (a authority) leafOf(s *signerInfo, embedded []*x509.Certificate) *x509.Certificate {
	is := func(c *x509.Certificate) bool {
		return bytes.Equal(c.RawIssuer, s.By.Issuer.FullBytes) && s.By.Serial != nil && c.SerialNumber.Cmp(s.By.Serial) == 0
	}
	at := slices.IndexFunc(embedded, is)
	if first := a.chain[0]; !first.IsCA {
		if !is(first) || len(embedded) > 0 && (at < 0 || !embedded[at].Equal(first)) {
			return nil
		}
		return first
	}
	if at < 0 || checkKey(embedded[at].PublicKey) != nil {
		return nil
	}
	return embedded[at]
}

// isBy tells whether a certificate's key has signed the attributes, and these are of the content and of the
// certificate.
func (s *signerInfo) isBy(leaf *x509.Certificate, hash crypto.Hash, data *signedData) bool {
	var all []attribute
	set := slices.Clone(s.Attributes.FullBytes)
	if len(set) == 0 {
		return false
	}
	set[0] = asn1.TagSet | 0x20 // what is signed is a set, and what is kept has a tag of its place
	if rest, err := asn1.UnmarshalWithParams(set, &all, "set"); err != nil || len(rest) > 0 {
		return false
	}
	value := func(id asn1.ObjectIdentifier, into any) bool {
		found := slices.DeleteFunc(slices.Clone(all), func(a attribute) bool { return !a.ID.Equal(id) })
		if len(found) != 1 {
			return false
		}
		rest, err := asn1.Unmarshal(found[0].Values.Bytes, into)
		return err == nil && len(rest) == 0
	}
	var kind asn1.ObjectIdentifier
	var digest []byte
	var by struct {
		Certificates []struct {
			Hash   pkix.AlgorithmIdentifier `asn1:"optional"`
			Sum    []byte
			Issuer asn1.RawValue `asn1:"optional"`
		}
	}
	if !value(idContentType, &kind) || !kind.Equal(data.Content.Type) || !value(idMessageDigest, &digest) ||
		!bytes.Equal(digest, sumOf(hash, data.Content.Text)) {
		return false
	}
	if !value(idSigningCertificate2, &by) || len(by.Certificates) == 0 {
		return false
	}
	named := crypto.SHA256 // if it is not said
	if first := by.Certificates[0]; len(first.Hash.Algorithm) > 0 {
		named = hashNamed(first.Hash)
	}
	if named == 0 || !bytes.Equal(by.Certificates[0].Sum, sumOf(named, leaf.Raw)) {
		return false
	}
	if !slices.ContainsFunc(algorithms(leaf.PublicKey, hash), s.Algorithm.Algorithm.Equal) {
		return false
	}
	sum := sumOf(hash, set)
	switch key := leaf.PublicKey.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum, s.Signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, hash, sum, s.Signature) == nil
	}
	return false
}

// mayStamp tells whether a certificate is of the authority, is for timestamps only, and was good at a time.
func (a authority) mayStamp(leaf *x509.Certificate, at time.Time) bool {
	onlyStamps := len(leaf.ExtKeyUsage) == 1 && leaf.ExtKeyUsage[0] == x509.ExtKeyUsageTimeStamping && len(leaf.UnknownExtKeyUsage) == 0
	isCritical := slices.ContainsFunc(leaf.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(idExtKeyUsage) && e.Critical })
	if leaf.IsCA || !onlyStamps || !isCritical {
		return false
	}
	chains, err := a.chainsTo(leaf, at, x509.ExtKeyUsageTimeStamping)
	return err == nil && len(chains) > 0
}
