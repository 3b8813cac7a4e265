// Package keyless verifies signatures that were made without a key of the signer's own, as `cosign sign` makes them by
// default: an authority (Fulcio) gave the signer a certificate for some minutes, and a transparency log (Rekor) or an
// authority of timestamps (RFC 3161) says when the signature was made. All that is needed is in the bundle and in the
// trusted root that the caller gives.
//
// Invariants: a certificate counts only if an authority of the root issued it, a log of certificates of the root has
// taken it in (if the root names such logs), and it was good at each time that a log or an authority of the root has
// signed; a log of the root has an entry of this very signature, content and certificate, by the log's promise, its
// proof, or both, of which each that is there must be good; nobody is asked.
//
// Nothing here trusts its input but the root.
package keyless

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

const (
	// maxEntries of logs may be in one bundle, and so many timestamps.
	maxEntries = 8
	// maxIdentityBytes of a pattern.
	maxIdentityBytes = 1024
	// maxSignerBytes of what a certificate says of its holder.
	maxSignerBytes = 2048
)

// Signer is whom an authority has named in a certificate: a workflow's URL or an email address, and the issuer of the
// token by which the authority knew the signer.
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

// ParseIdentity reads two regular expressions, each of which has to fit to all of its text. The error says what is
// wrong with them.
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

// Bundle is what is kept beside a signature, and how (Sigstore's bundles).
type Bundle struct {
	MediaType string   `json:"mediaType"`
	Material  Material `json:"verificationMaterial"`
}

// bundleVersion tells what a bundle has to have.
type bundleVersion int

const (
	version1 bundleVersion = iota + 1 // the log's promise is enough
	version2                          // the log's proof is in it
	version3                          // and the certificate stands alone
)

func (b Bundle) version() (bundleVersion, error) {
	switch b.MediaType {
	case "application/vnd.dev.sigstore.bundle+json;version=0.1":
		return version1, nil
	case "application/vnd.dev.sigstore.bundle+json;version=0.2":
		return version2, nil
	case "application/vnd.dev.sigstore.bundle+json;version=0.3", "application/vnd.dev.sigstore.bundle.v0.3+json":
		return version3, nil
	}
	return 0, errors.New("a bundle of a version that is not read: only 0.1 to 0.3 are")
}

// Material is what a bundle has beside its envelope (verificationMaterial).
type Material struct {
	Certificate *encoded `json:"certificate"`
	Chain       *struct {
		Certificates []encoded `json:"certificates"`
	} `json:"x509CertificateChain"` // of bundles before 0.3: the first is the signer's
	Entries    []Entry `json:"tlogEntries"`
	Timestamps struct {
		Signed []struct {
			DER []byte `json:"signedTimestamp"`
		} `json:"rfc3161Timestamps"`
	} `json:"timestampVerificationData"`
}

type encoded struct {
	Raw []byte `json:"rawBytes"` // DER
}

// IsZero tells that a bundle has no certificate: it was signed with a key.
func (m Material) IsZero() bool { return m.Certificate == nil && m.Chain == nil }

// Verify tells who signed a message, which stands for a payload (DSSE). The error says why the signature does not
// count.
func (r *Root) Verify(b Bundle, payload, message, signature []byte) (Signer, error) {
	version, err := b.version()
	if err != nil {
		return Signer{}, err
	}
	cert, err := b.Material.certificate(version)
	if err != nil {
		return Signer{}, err
	}
	if err := checkKey(cert.PublicKey); err != nil {
		return Signer{}, fmt.Errorf("a certificate whose key %w", err)
	}
	if !verify(cert.PublicKey, message, signature) {
		return Signer{}, errors.New("a signature that does not fit to its certificate")
	}
	times, err := r.times(b.Material, content{cert, payload, message, signature}, version)
	if err != nil {
		return Signer{}, err
	}
	for _, at := range times {
		if err := r.trusts(cert, at); err != nil {
			return Signer{}, err
		}
	}
	return signerOf(cert)
}

// times are when a signature was there, as the root's logs and authorities of timestamps have signed. A log of the root
// must have taken it in, and each entry and timestamp that the root can judge must be good: what is damaged does not
// count less than what is missing.
func (r *Root) times(m Material, of content, version bundleVersion) (times []time.Time, err error) {
	if len(m.Entries) > maxEntries || len(m.Timestamps.Signed) > maxEntries {
		return nil, fmt.Errorf("more than %d log entries or timestamps", maxEntries)
	}
	if len(r.timestamps) > 0 {
		for _, t := range m.Timestamps.Signed {
			at, err := r.timestamp(t.DER, of.signature)
			if err != nil {
				return nil, err
			}
			times = append(times, at)
		}
	}
	entries := 0
	for _, e := range m.Entries {
		at := slices.IndexFunc(r.logs, func(l log) bool { return bytes.Equal(l.id, e.Log.KeyID) })
		if at < 0 {
			continue // of a log that is none of the root's
		}
		l := r.logs[at]
		signed, err := l.timeOf(e, of, version)
		if err != nil {
			return nil, err
		}
		if !signed.IsZero() {
			times = append(times, signed)
		} else if !slices.ContainsFunc(times, l.holds) {
			return nil, errors.New("a log entry without a time (Rekor 2), and no timestamp of an authority (timestampAuthorities) of the trusted root")
		}
		entries++
	}
	if entries == 0 {
		return nil, errors.New("no entry of a transparency log of the trusted root (tlogs)")
	}
	return times, nil
}

func (m Material) certificate(version bundleVersion) (cert *x509.Certificate, err error) {
	var all []encoded
	switch {
	case m.Certificate != nil && m.Chain == nil:
		all = []encoded{*m.Certificate}
	case m.Chain != nil && m.Certificate == nil && version != version3:
		all = m.Chain.Certificates
	}
	wrong := errors.New("a certificate that can't be read")
	if len(all) > maxChain {
		return nil, wrong
	}
	for _, one := range all {
		c, err := x509.ParseCertificate(one.Raw)
		if err != nil {
			return nil, wrong
		}
		if cert == nil {
			cert = c
		}
	}
	if cert == nil {
		return nil, wrong
	}
	return cert, nil
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
		if chains, err := a.chainsTo(cert, at, x509.ExtKeyUsageCodeSigning); err == nil {
			return r.issued(cert, chains)
		}
	}
	return errors.New("a certificate of no authority of the trusted root, or one that was not good when the log took the signature in")
}

// chainsTo leads from a certificate to the authority's root, if all were good at a time and may be used so.
func (a authority) chainsTo(cert *x509.Certificate, at time.Time, usage x509.ExtKeyUsage) ([][]*x509.Certificate, error) {
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage}}
	for i, one := range a.chain {
		if i == len(a.chain)-1 {
			options.Roots.AddCert(one)
		} else {
			options.Intermediates.AddCert(one)
		}
	}
	return cert.Verify(options)
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
