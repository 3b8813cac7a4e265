// Package signed tells who signed a package of a chart or an artifact of a registry: the signatures of cosign and
// notation, and the provenance files of Helm (.prov).
//
// Invariants: only the keys, authorities and trusted roots that were given count; a signature is for the one digest, or
// the one file, that the caller names; nothing of what was signed is read before its signature fits.
//
// Nothing here trusts its input, and nothing here talks to anybody.
package signed

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/platform/keyless"
	"fairlead.dev/services/gitcache/internal/signature"
)

// Provider is how something is signed.
type Provider string

// The providers.
const (
	Cosign     Provider = "cosign"
	Notation   Provider = "notation"
	Provenance Provider = "provenance" // Helm's .prov
)

// Policy says who must have signed what a source publishes. The zero value: nobody.
type Policy struct {
	Provider Provider
	Keys     []string // public keys: PEM for cosign, armoured OpenPGP for provenance
	// Repository is what signatures call the source's repository, if they were made for another place: host/path.
	// Empty: as the source does.
	Repository string
	// Certificates of authorities, in PEM, and Identities of signers, as in a trust policy, are for notation.
	Certificates, Identities []string
	// Signers, by regular expressions, and the Root of their authorities and logs (JSON of Sigstore) are for cosign
	// without a key.
	Signers []Signer
	Root    string
}

// Signer is the issuer and the subject of who may sign without a key.
type Signer struct{ Issuer, Subject string }

// IsKeyless tells that signatures have certificates and no keys.
func (p Policy) IsKeyless() bool { return len(p.Signers) > 0 || p.Root != "" }

// IsZero tells that nothing has to be signed.
func (p Policy) IsZero() bool { return p.Provider == "" }

// Equal compares policies.
func (p Policy) Equal(o Policy) bool {
	return p.Provider == o.Provider && p.Repository == o.Repository && slices.Equal(p.Keys, o.Keys) &&
		slices.Equal(p.Certificates, o.Certificates) && slices.Equal(p.Identities, o.Identities) &&
		slices.Equal(p.Signers, o.Signers) && p.Root == o.Root
}

// Advice is the next step with content that does not count as signed.
func (p Policy) Advice(no *signature.Refusal) string {
	switch {
	case no.Kind == signature.Invalid:
	case p.Provider == Notation:
		return "Sign it with a certificate of one of the source's authorities, as one of its trusted identities"
	case p.IsKeyless():
		return "Sign it as one of the source's identities (cosign 3, with the Sigstore of the trusted root)"
	}
	return no.Advice()
}

// Trust is a policy whose keys were read. For one goroutine.
type Trust struct {
	Policy Policy

	keys []publicKey     // of cosign
	ring *signature.Keys // of provenance
	all  *authorities    // of notation
	root *keyless.Root   // of cosign without a key
	// signers are who may sign without one.
	signers []keyless.Identity
}

// Has tells whether a fingerprint is that of one of the keys, or a signer is trusted by the authorities and identities.
func (t *Trust) Has(fingerprint string) bool {
	if t.all != nil {
		return t.all.has(fingerprint)
	}
	if t.ring != nil {
		return t.ring.Has(fingerprint)
	}
	if t.root != nil {
		signer, ok := keyless.ParseSigner(fingerprint)
		return ok && t.mayBe(signer)
	}
	return slices.ContainsFunc(t.keys, func(k publicKey) bool { return k.fingerprint == fingerprint })
}

// New reads the keys of a policy. The error says which is wrong and repeats nothing of it.
func New(p Policy) (*Trust, error) {
	t := &Trust{Policy: p}
	if p.Provider == Notation {
		var err error
		t.all, err = newAuthorities(p)
		if err != nil {
			return nil, err
		}
		return t, nil
	}
	if p.IsKeyless() {
		if err := t.readRoot(p); err != nil {
			return nil, err
		}
		return t, nil
	}
	if len(p.Keys) == 0 {
		return nil, errors.New("verify names no keys. Add a public key as verify.keys to the source")
	}
	switch p.Provider {
	case Provenance:
		var err error
		if t.ring, err = signature.ParseKeys(p.Keys); err != nil {
			return nil, err
		}
		return t, nil
	case Cosign:
	default:
		return nil, fmt.Errorf("verify names the provider %q, which this gitcache does not know. Update the gitcaches, or choose another", p.Provider)
	}
	for i, text := range p.Keys {
		key, err := parsePublicKey(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("verification key %d %w", i+1, err)
		}
		t.keys = append(t.keys, key)
	}
	return t, nil
}
