// Package keyless verifies signatures that were made without a key of the signer's own, as `cosign sign` makes them by default: an authority
// (Fulcio) gave the signer a certificate for some minutes, and a transparency log (Rekor) says when the signature was made. All that is needed
// is in the bundle and in the trusted root that the caller gives.
//
// Invariants: a certificate counts only if an authority of the root issued it and it was good at the time that a log of the root has signed; that
// log entry is of this very signature, payload and certificate; nobody is asked.
//
// Nothing here trusts its input but the root.
package keyless

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

const (
	// maxEntries of logs in one bundle are looked at.
	maxEntries = 4
	// maxIdentityBytes of a pattern.
	maxIdentityBytes = 1024
	// maxSignerBytes of what a certificate says of its holder.
	maxSignerBytes = 2048
)

// Signer is whom an authority has named in a certificate: a workflow's URL or an email address, and the issuer of the token by which the
// authority knew the signer.
type Signer struct{ Subject, Issuer string }

const issuedBy = " (issuer "

func (s Signer) String() string { return s.Subject + issuedBy + s.Issuer + ")" }

// ParseSigner is the opposite of String.
func ParseSigner(text string) (Signer, bool) {
	inner, closed := strings.CutSuffix(text, ")")
	at := strings.LastIndex(inner, issuedBy)
	if !closed || at < 0 {
		return Signer{}, false
	}
	return Signer{inner[:at], inner[at+len(issuedBy):]}, true
}

// Identity says who may sign.
type Identity struct{ issuer, subject *regexp.Regexp }

// ParseIdentity reads two regular expressions, each of which has to fit to all of its text. The error says what is wrong with them.
func ParseIdentity(issuer, subject string) (Identity, error) {
	var id Identity
	for _, one := range []struct {
		name, text string
		into       **regexp.Regexp
	}{{"issuer", issuer, &id.issuer}, {"subject", subject, &id.subject}} {
		if one.text == "" || len(one.text) > maxIdentityBytes {
			return id, fmt.Errorf("has no %s, or one of more than %d bytes. Write a regular expression for it", one.name, maxIdentityBytes)
		}
		_, err := regexp.Compile(one.text) // else it could end the group
		whole, wholeErr := regexp.Compile(`^(?:` + one.text + `)$`)
		if err != nil || wholeErr != nil {
			return id, fmt.Errorf("has a %s that is no regular expression. Write it in the syntax of RE2", one.name)
		}
		*one.into = whole
	}
	return id, nil
}

// IsOf tells whether a signer is meant.
func (i Identity) IsOf(s Signer) bool {
	return i.issuer.MatchString(s.Issuer) && i.subject.MatchString(s.Subject)
}

// Material is what a bundle has beside its envelope (verificationMaterial).
type Material struct {
	Certificate *encoded `json:"certificate"`
	Chain       *struct {
		Certificates []encoded `json:"certificates"`
	} `json:"x509CertificateChain"` // of bundles before 0.3: the first is the signer's
	Entries []Entry `json:"tlogEntries"`
}

type encoded struct {
	Raw []byte `json:"rawBytes"` // DER
}

// Entry is what a log says of a signature.
type Entry struct {
	Index json.Number `json:"logIndex"`
	Log   struct {
		KeyID []byte `json:"keyId"`
	} `json:"logId"`
	Kind struct {
		Kind    string `json:"kind"`
		Version string `json:"version"`
	} `json:"kindVersion"`
	Time    json.Number `json:"integratedTime"`
	Promise struct {
		Signature []byte `json:"signedEntryTimestamp"`
	} `json:"inclusionPromise"`
	Body []byte `json:"canonicalizedBody"`
}

// IsZero tells that a bundle has no certificate: it was signed with a key.
func (m Material) IsZero() bool { return m.Certificate == nil && m.Chain == nil }

// Verify tells who signed a message, which stands for a payload (DSSE). The error says why the signature does not count.
func (r *Root) Verify(m Material, payload, message, signature []byte) (Signer, error) {
	cert, err := m.certificate()
	if err != nil {
		return Signer{}, err
	}
	if err := checkKey(cert.PublicKey); err != nil {
		return Signer{}, fmt.Errorf("a certificate whose key %w", err)
	}
	if !verify(cert.PublicKey, message, signature) {
		return Signer{}, errors.New("a signature that does not fit to its certificate")
	}
	if len(m.Entries) == 0 {
		return Signer{}, errors.New("no entry of a transparency log, so that nothing says when it was made")
	}
	for _, e := range m.Entries[:min(len(m.Entries), maxEntries)] {
		var at time.Time
		if at, err = r.timeOf(e, cert, payload, signature); err == nil {
			if err = r.trusts(cert, at); err == nil {
				return signerOf(cert)
			}
		}
	}
	return Signer{}, err
}

func (m Material) certificate() (*x509.Certificate, error) {
	var raw []byte
	switch {
	case m.Certificate != nil:
		raw = m.Certificate.Raw
	case m.Chain != nil && len(m.Chain.Certificates) > 0:
		raw = m.Chain.Certificates[0].Raw
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, errors.New("a certificate that can't be read")
	}
	return cert, nil
}

// timeOf is when a log has taken in a signature, by the log's own signature over that.
func (r *Root) timeOf(e Entry, cert *x509.Certificate, payload, signature []byte) (at time.Time, err error) {
	seconds, err := e.Time.Int64()
	index, indexErr := e.Index.Int64()
	switch {
	case err != nil || indexErr != nil || seconds <= 0 || index < 0:
		return at, errors.New("a log entry without a time, as of Rekor 2, which is not read. Sign with Rekor 1")
	case len(e.Promise.Signature) == 0:
		return at, errors.New("a log entry without the log's signature over its time (signedEntryTimestamp)")
	}
	at = time.Unix(seconds, 0)
	// The canonical form of JSON (RFC 8785) of what the log signs.
	signed := fmt.Appendf(nil, `{"body":"%s","integratedTime":%d,"logID":"%s","logIndex":%d}`, base64.StdEncoding.EncodeToString(e.Body), seconds, hex.EncodeToString(e.Log.KeyID), index)
	isLogged := slices.ContainsFunc(r.logs, func(l log) bool {
		return bytes.Equal(l.id, e.Log.KeyID) && l.holds(at) && verify(l.key, signed, e.Promise.Signature)
	})
	if !isLogged {
		return at, errors.New("a log entry that is of no log of the trusted root, or does not fit to it")
	}
	return at, e.isOf(cert, payload, signature)
}

// isOf holds the entry against the signature that it must be of.
func (e Entry) isOf(cert *x509.Certificate, payload, signature []byte) error {
	var body struct {
		Kind string `json:"kind"`
		Spec struct {
			PayloadHash struct {
				Algorithm string `json:"algorithm"`
				Value     string `json:"value"`
			} `json:"payloadHash"`
			Signatures []struct {
				Signature []byte `json:"signature"`
				Verifier  []byte `json:"verifier"` // PEM
			} `json:"signatures"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(e.Body, &body); err != nil || body.Kind != "dsse" || e.Kind.Kind != "dsse" {
		return errors.New("a log entry of a kind that is not read. Only dsse is")
	}
	sum, is := sha256.Sum256(payload), body.Spec.PayloadHash
	if is.Algorithm != "sha256" || is.Value != hex.EncodeToString(sum[:]) {
		return errors.New("a log entry that is for something else")
	}
	for _, s := range body.Spec.Signatures {
		block, _ := pem.Decode(s.Verifier)
		if bytes.Equal(s.Signature, signature) && block != nil && bytes.Equal(block.Bytes, cert.Raw) {
			return nil
		}
	}
	return errors.New("a log entry that is for another signature")
}

// trusts tells whether an authority of the root issued a certificate, and the certificate was good at a time.
func (r *Root) trusts(cert *x509.Certificate, at time.Time) error {
	if cert.IsCA || cert.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return errors.New("a certificate that is not for signatures")
	}
	for _, a := range r.authorities {
		if !a.holds(at) {
			continue
		}
		options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}}
		for i, one := range a.chain {
			if i == len(a.chain)-1 {
				options.Roots.AddCert(one)
			} else {
				options.Intermediates.AddCert(one)
			}
		}
		if _, err := cert.Verify(options); err == nil {
			return nil
		}
	}
	return errors.New("a certificate of no authority of the trusted root, or one that was not good when the log took the signature in")
}

//nolint:gochecknoglobals // never changed: the names of Fulcio's extensions
var (
	issuerExtension    = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 8}
	oldIssuerExtension = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}
)

// signerOf reads whom a certificate names.
func signerOf(cert *x509.Certificate) (s Signer, err error) {
	subjects := slices.Concat(cert.EmailAddresses, cert.DNSNames)
	for _, u := range cert.URIs {
		subjects = append(subjects, u.String())
	}
	if len(subjects) != 1 {
		return Signer{}, errors.New("a certificate that does not name one holder")
	}
	s.Subject = subjects[0]
	for _, e := range cert.Extensions {
		switch {
		case e.Id.Equal(issuerExtension):
			if rest, err := asn1.Unmarshal(e.Value, &s.Issuer); err != nil || len(rest) > 0 {
				return Signer{}, errors.New("a certificate whose issuer can't be read")
			}
		case e.Id.Equal(oldIssuerExtension) && s.Issuer == "":
			s.Issuer = string(e.Value)
		}
	}
	text := s.Subject + s.Issuer
	odd := strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
	if s.Issuer == "" || odd || len(text) > maxSignerBytes || strings.Contains(text, issuedBy) {
		return Signer{}, errors.New("a certificate that does not say by whom its holder was known")
	}
	return s, nil
}
