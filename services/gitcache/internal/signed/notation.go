package signed

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"fairlead.dev/platform/notation"
	"fairlead.dev/services/gitcache/internal/signature"
)

// The form of notation's signatures: specifications of the Notary Project, signature-specification.md,
// signature-envelope-jws.md and signature-envelope-cose.md.
const (
	notationPayload = "application/vnd.cncf.notary.payload.v1+json"
	notationScheme  = "notary.x509"
	headerScheme    = "io.cncf.notary.signingScheme"
	headerTime      = "io.cncf.notary.signingTime"
	headerExpiry    = "io.cncf.notary.expiry"
	headerPlugin    = "io.cncf.notary.verificationPlugin"
	// maxChain certificates of one signature are read.
	maxChain = 8
	// maxAuthorityBits of an RSA key of a certificate: to verify by a larger one takes long.
	maxAuthorityBits = 8192
)

// authorities are what is trusted of notation's signatures.
type authorities struct {
	certificates []*x509.Certificate
	identities   []notation.Identity
}

func newAuthorities(p Policy) (*authorities, error) {
	a := &authorities{}
	if len(p.Certificates) == 0 || len(p.Identities) == 0 {
		return nil, errors.New("verify names no certificates or no trustedIdentities. Add both to the source")
	}
	for i, text := range p.Certificates {
		cert, err := notation.ParseCertificate(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("certificate %d %w", i+1, err)
		}
		a.certificates = append(a.certificates, cert)
	}
	for i, text := range p.Identities {
		id, err := notation.ParseIdentity(text)
		if err != nil {
			return nil, fmt.Errorf("trusted identity %d %w", i+1, err)
		}
		a.identities = append(a.identities, id)
	}
	return a, nil
}

// signerText is how a signer is told: the subject of its certificate, and the authority by which it is trusted.
func signerText(subject notation.Subject, authority *x509.Certificate) string {
	return subject.String() + " (authority " + fingerprintOf(authority.Raw) + ")"
}

// has tells whether a signer, as signerText tells it, is trusted today.
func (a *authorities) has(signer string) bool {
	text, authority, ok := cutLast(strings.TrimSuffix(signer, ")"), " (authority ")
	known := slices.ContainsFunc(a.certificates, func(c *x509.Certificate) bool {
		return fingerprintOf(c.Raw) == authority
	})
	if !ok || !known {
		return false
	}
	subject, err := notation.ParseSubject(text)
	if err != nil {
		subject = nil // it has none that can be compared
	}
	return a.trusts(subject)
}

func (a *authorities) trusts(subject notation.Subject) bool {
	return slices.ContainsFunc(a.identities, func(id notation.Identity) bool { return id.IsOf(subject) })
}

func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}

func fingerprintOf(der []byte) string {
	sum := sha256.Sum256(der)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// verify tells who signed a subject by an envelope. Nothing of what was signed is read before the signature fits, and
// no certificate counts by what it says of itself before a trusted one is found in its chain.
func (a *authorities) verify(text []byte, of Subject, now time.Time) (signer string, no *signature.Refusal) {
	e, err := parseEnvelope(text)
	if err != nil {
		return "", signature.Refuse(signature.Invalid, "has a signature that %v", err)
	}
	chain, no := e.certificates()
	if no != nil {
		return "", no
	}
	authority, no := a.authorityOf(chain)
	if no != nil {
		return "", no
	}
	if no := checkChain(chain, now); no != nil {
		return "", no
	}
	leaf := chain[0]
	subject := notation.SubjectOf(leaf.Subject)
	signer = signerText(subject, authority)
	if !a.trusts(subject) {
		const text = "has a signature by %s, none of the source's trusted identities"
		return "", signature.Refuse(signature.Unknown, text, shorten(signer))
	}
	alg, ok := e.fits(leaf.PublicKey)
	if !ok {
		return "", signature.Refuse(signature.Invalid, "has a signature by %s that does not fit", shorten(signer))
	}
	if err := e.checkHeader(alg, now); err != nil {
		return "", signature.Refuse(kindOf(err), "has a signature by %s that %v", shorten(signer), err)
	}
	if no := e.checkPayload(of, signer); no != nil {
		return "", no
	}
	return signer, nil
}

// certificates reads the chain: the first signs, and each is issued by the next.
func (e *envelope) certificates() ([]*x509.Certificate, *signature.Refusal) {
	if n := len(e.chain); n == 0 || n > maxChain {
		const text = "has a signature with %d certificates: one to %d are possible"
		return nil, signature.Refuse(signature.Invalid, text, n, maxChain)
	}
	var chain []*x509.Certificate
	for _, der := range e.chain {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, signature.Refuse(signature.Invalid, "has a signature with a damaged certificate")
		}
		chain = append(chain, cert)
	}
	return chain, nil
}

// authorityOf is the trusted certificate in a chain.
func (a *authorities) authorityOf(chain []*x509.Certificate) (*x509.Certificate, *signature.Refusal) {
	for _, c := range chain {
		if slices.ContainsFunc(a.certificates, c.Equal) {
			return c, nil
		}
	}
	last := nameOf(chain[len(chain)-1])
	const text = "has a signature of an authority (%s) that is none of the source's certificates"
	return nil, signature.Refuse(signature.Unknown, text, last)
}

// checkChain verifies each certificate by the next, and what certificates that sign must and must not be able to.
func checkChain(chain []*x509.Certificate, now time.Time) *signature.Refusal {
	for i, c := range chain {
		if now.Before(c.NotBefore) || now.After(c.NotAfter) {
			return signature.Refuse(signature.Expired, "has a signature with a certificate (%s) that is good from %s to %s only",
				nameOf(c), c.NotBefore.Format(time.DateOnly), c.NotAfter.Format(time.DateOnly))
		}
		err := checkIssuer(c, chain[min(i+1, len(chain)-1)], i)
		if err == nil && i == 0 {
			err = checkLeaf(c)
		}
		if err != nil {
			return signature.Refuse(signature.Invalid, "has a signature with a certificate (%s) that %v", nameOf(c), err)
		}
	}
	return nil
}

// nameOf is a certificate in a message.
func nameOf(c *x509.Certificate) string { return shorten(notation.SubjectOf(c.Subject).String()) }

// algorithms are those that certificates may be signed with.
func algorithms() []x509.SignatureAlgorithm {
	return []x509.SignatureAlgorithm{
		x509.SHA256WithRSA, x509.SHA384WithRSA, x509.SHA512WithRSA,
		x509.SHA256WithRSAPSS, x509.SHA384WithRSAPSS, x509.SHA512WithRSAPSS,
		x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512, x509.PureEd25519,
	}
}

// checkIssuer verifies a certificate at a place in the chain by its issuer: the next one, or itself at the end.
func checkIssuer(c, issuer *x509.Certificate, at int) error {
	if key, ok := issuer.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxAuthorityBits {
		return fmt.Errorf("is issued with an RSA key of more than %d bits", maxAuthorityBits)
	}
	if !bytes.Equal(c.RawIssuer, issuer.RawSubject) {
		return errors.New("is not issued by the next one in the chain, or the root is missing")
	}
	if c != issuer {
		if err := checkAuthority(issuer, at); err != nil {
			return fmt.Errorf("is issued by one that %w", err)
		}
	}
	if !slices.Contains(algorithms(), c.SignatureAlgorithm) {
		return fmt.Errorf("is signed with a weak algorithm, %s", c.SignatureAlgorithm)
	}
	if err := issuer.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature); err != nil {
		return errors.New("is not signed by its issuer")
	}
	return nil
}

// checkAuthority wants a certificate that may issue others, with so many authorities below it.
func checkAuthority(c *x509.Certificate, below int) error {
	switch {
	case !c.BasicConstraintsValid || !c.IsCA || !isCritical(c, oidBasicConstraints):
		return errors.New("is not of an authority")
	case c.KeyUsage&x509.KeyUsageCertSign == 0 || !isCritical(c, oidKeyUsage):
		return errors.New("may not issue certificates")
	case (c.MaxPathLen > 0 || c.MaxPathLenZero) && below > c.MaxPathLen:
		return errors.New("may not have so many authorities below it")
	}
	return nil
}

// checkLeaf wants a certificate that may sign content, and nothing else.
func checkLeaf(c *x509.Certificate) error {
	others := []x509.ExtKeyUsage{
		x509.ExtKeyUsageAny, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageEmailProtection,
		x509.ExtKeyUsageTimeStamping,
	}
	switch {
	case c.IsCA:
		return errors.New("is of an authority, and may not sign content")
	case c.KeyUsage&x509.KeyUsageDigitalSignature == 0 || !isCritical(c, oidKeyUsage):
		return errors.New("may not sign")
	case c.KeyUsage&^(x509.KeyUsageDigitalSignature|x509.KeyUsageContentCommitment) != 0:
		return errors.New("may be used for other things than signing")
	case slices.ContainsFunc(c.ExtKeyUsage, func(u x509.ExtKeyUsage) bool { return slices.Contains(others, u) }):
		return errors.New("is for other things than signing content")
	}
	return nil
}

var (
	oidKeyUsage         = asn1.ObjectIdentifier{2, 5, 29, 15} //nolint:gochecknoglobals // constants
	oidBasicConstraints = asn1.ObjectIdentifier{2, 5, 29, 19} //nolint:gochecknoglobals // constants
)

func isCritical(c *x509.Certificate, id asn1.ObjectIdentifier) bool {
	for _, e := range c.Extensions {
		if e.Id.Equal(id) {
			return e.Critical
		}
	}
	return false
}

// fits verifies an envelope by a key. The algorithm follows from the key, and from nothing that the envelope says.
func (e *envelope) fits(key crypto.PublicKey) (alg string, ok bool) {
	message, sig := e.message, e.signature
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		bits := key.Curve.Params().BitSize
		alg, size := map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[bits], (bits+7)/8
		if alg == "" || len(sig) != 2*size {
			return "", false
		}
		r, s := new(big.Int).SetBytes(sig[:size]), new(big.Int).SetBytes(sig[size:])
		return alg, ecdsa.Verify(key, digest(hashOf(bits), message), r, s)
	case *rsa.PublicKey:
		bits := key.N.BitLen()
		alg, hash := map[int]string{2048: "PS256", 3072: "PS384", 4096: "PS512"}[bits], hashOf(bits)
		if alg == "" {
			return "", false
		}
		options := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
		return alg, rsa.VerifyPSS(key, hash, digest(hash, message), sig, options) == nil
	}
	return "", false
}

// hashOf is the hash that goes with a size of a key.
func hashOf(bits int) crypto.Hash {
	switch bits {
	case 384, 3072:
		return crypto.SHA384
	case 521, 4096:
		return crypto.SHA512
	}
	return crypto.SHA256
}

// errOver is for a signature whose time is over.
var errOver = errors.New("is expired")

func kindOf(err error) signature.Kind {
	if errors.Is(err, errOver) {
		return signature.Expired
	}
	return signature.Invalid
}

// checkHeader wants what a signature says of itself to be what is known here, and all of it.
func (e *envelope) checkHeader(alg string, now time.Time) error {
	h, err := e.header()
	if err != nil {
		return err
	}
	if !slices.Contains(h.critical, headerScheme) {
		return errors.New("does not say what is critical")
	}
	said := h.texts
	switch {
	case said["alg"] != alg:
		return fmt.Errorf("says it is made by %q, and its key makes %s", shorten(said["alg"]), alg)
	case said["cty"] != notationPayload:
		return errors.New("is of no artifact")
	case said[headerScheme] != notationScheme:
		return fmt.Errorf("is made by the scheme %q, which Fairlead does not know", shorten(said[headerScheme]))
	case h.has[headerPlugin]:
		return fmt.Errorf("wants the plugin %q to verify it, and Fairlead has no plugins", shorten(said[headerPlugin]))
	case h.times[headerTime].IsZero():
		return errors.New("does not say when it was made")
	}
	for _, name := range h.critical {
		if name != headerScheme && name != headerExpiry || !h.has[name] {
			return fmt.Errorf("has the critical header %q, which Fairlead does not know", shorten(name))
		}
	}
	if !h.has[headerExpiry] {
		return nil
	}
	expiry := h.times[headerExpiry]
	if expiry.IsZero() || !slices.Contains(h.critical, headerExpiry) {
		return errors.New("has an end that can't be read")
	}
	if !now.Before(expiry) {
		return fmt.Errorf("%w since %s", errOver, expiry.Format(time.DateOnly))
	}
	return nil
}

// checkPayload wants an envelope to be of a subject.
func (e *envelope) checkPayload(of Subject, signer string) *signature.Refusal {
	var payload struct {
		Target struct {
			Digest string `json:"digest"`
		} `json:"targetArtifact"`
	}
	if json.Unmarshal(e.payload, &payload) != nil {
		return signature.Refuse(signature.Invalid, "has a signature by %s whose content can't be read", shorten(signer))
	}
	if payload.Target.Digest != string(of.Digest) {
		const text = "has a signature by %s that is for another artifact, %s"
		return signature.Refuse(signature.Invalid, text, shorten(signer), shorten(payload.Target.Digest))
	}
	return nil
}
