package signed

import (
	"errors"
	"fmt"
	"slices"

	"fairlead.dev/platform/keyless"
	"fairlead.dev/services/gitcache/internal/signature"
)

// readRoot reads what is trusted of signatures without a key.
func (t *Trust) readRoot(p Policy) (err error) {
	if p.Provider != Cosign || len(p.Signers) == 0 || len(p.Keys) > 0 {
		return errors.New("verify names a trustedRoot or matchOIDCIdentity, which go together, without keys, and with cosign only. Correct the source")
	}
	for i, is := range p.Signers {
		id, err := keyless.ParseIdentity(is.Issuer, is.Subject)
		if err != nil {
			return fmt.Errorf("identity %d %w", i+1, err)
		}
		t.signers = append(t.signers, id)
	}
	if t.root, err = keyless.ParseRoot(p.Root); err != nil {
		return fmt.Errorf("the trusted root %w", err)
	}
	return nil
}

// mayBe tells whether a signer is one of those whom the policy names.
func (t *Trust) mayBe(signer keyless.Signer) bool {
	return slices.ContainsFunc(t.signers, func(id keyless.Identity) bool { return id.IsOf(signer) })
}

// holder is who signed without a key.
func (t *Trust) holder(b keyless.Bundle, payload, message, sig []byte) (signer string, no *signature.Refusal) {
	if b.Material.IsZero() {
		return "", signature.Refuse(signature.Unknown, "has a signature with a key, and the source wants one with a certificate of its trusted root")
	}
	is, err := t.root.Verify(b, payload, message, sig)
	switch {
	case err != nil:
		return "", signature.Refuse(signature.Invalid, "has a signature that does not count: it has %s", err)
	case !t.mayBe(is):
		return "", signature.Refuse(signature.Unknown, "has a signature by %s, who is none of the source's identities", shorten(is.String()))
	}
	return is.String(), nil
}
