package resource

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
	"golang.org/x/crypto/ssh"

	"fairlead.dev/platform/giturl"
	"fairlead.dev/platform/keyless"
	"fairlead.dev/platform/notation"
	"fairlead.dev/platform/refusal"
	"fairlead.dev/services/console/internal/state"
)

func checkVerification(v state.Verification) error {
	for i, key := range v.Keys {
		if err := checkKey(key); err != nil {
			return refusal.New(refusal.Invalid, "spec.git.verification.keys[%d]: %s", i, err)
		}
	}
	return nil
}

// checkVerify takes the providers that fit the source's url. Keys are not repeated in an error.
func checkVerify(v *state.Verify, field string, fit ...state.VerifyProvider) error {
	if v == nil {
		return nil
	}
	if !slices.Contains(fit, v.Provider) {
		return refusal.New(refusal.Invalid, "%s.provider: is %q, and for this url it is %s", field, v.Provider, oneOf(fit))
	}
	if len(v.Signers) > 0 || v.TrustedRoot != "" {
		return checkKeyless(v, field)
	}
	if v.Provider == state.VerifyNotation {
		return checkNotation(v, field)
	}
	if len(v.Certificates)+len(v.Identities) > 0 {
		return refusal.New(refusal.Invalid, "%s: certificates and trustedIdentities are for notation only. Remove them, or choose notation", field)
	}
	if len(v.Keys) == 0 {
		return refusal.New(refusal.Invalid, "%s.keys: name at least one public key", field)
	}
	check := checkPublicKey
	if v.Provider == state.VerifyProvenance {
		check = checkKeyring
	}
	for i, key := range v.Keys {
		if err := check(strings.TrimSpace(key)); err != nil {
			return refusal.New(refusal.Invalid, "%s.keys[%d]: %s", field, i, err)
		}
	}
	if v.Repository == "" {
		return nil
	}
	if v.Provider != state.VerifyCosign {
		return refusal.New(refusal.Invalid, "%s.repository: is for cosign only. Remove it", field)
	}
	if u, err := giturl.ParseRegistry("oci://" + v.Repository); err != nil || u.Host+u.Path != v.Repository {
		return refusal.New(refusal.Invalid,
			"%s.repository: write it as host/path, such as registry.example.com/team/shop", field)
	}
	return nil
}

// checkKeyless wants who may sign, and by whom they are known.
func checkKeyless(v *state.Verify, field string) error {
	switch {
	case v.Provider != state.VerifyCosign:
		return refusal.New(refusal.Invalid, "%s: matchOIDCIdentity and trustedRoot are for cosign only. Remove them, or choose cosign", field)
	case len(v.Keys)+len(v.Certificates)+len(v.Identities) > 0 || v.Repository != "":
		return refusal.New(refusal.Invalid, "%s: matchOIDCIdentity and trustedRoot do not go together with keys, repository, certificates and trustedIdentities. Remove the ones or the others", field)
	case len(v.Signers) == 0:
		return refusal.New(refusal.Invalid, "%s.matchOIDCIdentity: name who may sign, by issuer and subject", field)
	case v.TrustedRoot == "":
		return refusal.New(refusal.Invalid, "%s.trustedRoot: write what trusted_root.json of your Sigstore holds", field)
	}
	for i, is := range v.Signers {
		if _, err := keyless.ParseIdentity(is.Issuer, is.Subject); err != nil {
			return refusal.New(refusal.Invalid, "%s.matchOIDCIdentity[%d]: %s", field, i, err)
		}
	}
	if _, err := keyless.ParseRoot(v.TrustedRoot); err != nil {
		return refusal.New(refusal.Invalid, "%s.trustedRoot: %s", field, err)
	}
	return nil
}

// checkNotation wants certificates of authorities, and who of theirs may sign.
func checkNotation(v *state.Verify, field string) error {
	switch {
	case len(v.Keys) > 0 || v.Repository != "":
		return refusal.New(refusal.Invalid, "%s: keys and repository are not for notation. Write certificates and trustedIdentities", field)
	case len(v.Certificates) == 0:
		return refusal.New(refusal.Invalid, "%s.certificates: name at least one certificate of an authority", field)
	case len(v.Identities) == 0:
		return refusal.New(refusal.Invalid,
			"%s.trustedIdentities: name who may sign, or write * for all whom the authorities know", field)
	}
	for i, text := range v.Certificates {
		if _, err := notation.ParseCertificate(strings.TrimSpace(text)); err != nil {
			return refusal.New(refusal.Invalid, "%s.certificates[%d]: %s", field, i, err)
		}
	}
	for i, text := range v.Identities {
		if _, err := notation.ParseIdentity(text); err != nil {
			return refusal.New(refusal.Invalid, "%s.trustedIdentities[%d]: %s", field, i, err)
		}
	}
	return nil
}

// oneOf are providers in words.
func oneOf(providers []state.VerifyProvider) string {
	words := make([]string, 0, len(providers))
	for _, p := range providers {
		words = append(words, string(p))
	}
	return strings.Join(words, " or ")
}

// errPrivateKey repeats nothing of the key.
var errPrivateKey = errors.New("is a private key; write the public one, and trust this one no more: it was handed out")

// checkKeyring wants OpenPGP keys.
func checkKeyring(text string) error {
	switch {
	case strings.Contains(text, "PRIVATE KEY"):
		return errPrivateKey
	case !strings.HasPrefix(text, "-----BEGIN PGP "):
		return errors.New("is not an OpenPGP public key; write what `gpg --export --armor KEY` prints")
	}
	return checkOpenPGPKeys(text)
}

// minRSABits of a key that signs.
const minRSABits = 2048

// checkPublicKey wants what cosign.pub holds.
func checkPublicKey(text string) error {
	if strings.Contains(text, "PRIVATE KEY") {
		return errPrivateKey
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" || len(bytes.TrimSpace(rest)) > 0 {
		return errors.New("is not one public key in PEM (-----BEGIN PUBLIC KEY-----); write what cosign.pub holds")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return errors.New("is a damaged public key; write what cosign.pub holds")
	}
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if key.Curve.Params().BitSize < 256 {
			return errors.New("is an ECDSA key of less than 256 bits; use P-256 or a larger curve")
		}
	case *rsa.PublicKey:
		if key.N.BitLen() < minRSABits {
			return fmt.Errorf("is an RSA key of %d bits; use one of at least %d", key.N.BitLen(), minRSABits)
		}
	case ed25519.PublicKey:
	default:
		return errors.New("is of a kind that can't sign; use ECDSA, Ed25519 or RSA")
	}
	return nil
}

// checkKey knows public keys. checkKey repeats nothing of its argument.
func checkKey(text string) error {
	text = strings.TrimSpace(text)
	switch {
	case strings.Contains(text, "PRIVATE KEY"):
		return errPrivateKey
	case strings.HasPrefix(text, "-----BEGIN PGP "):
		return checkOpenPGPKeys(text)
	}
	return checkSSHKeys(text)
}

const armorEnd = "-----END PGP PUBLIC KEY BLOCK-----"

// checkOpenPGPKeys wants armoured blocks, one behind the other.
func checkOpenPGPKeys(text string) error {
	for text != "" {
		block, rest, whole := strings.Cut(text, armorEnd)
		ring, err := openpgp.ReadArmoredKeyRing(strings.NewReader(block + armorEnd + "\n"))
		if !whole || err != nil || len(ring) == 0 {
			return errors.New("is a damaged OpenPGP public key; write what `gpg --export --armor KEY` prints")
		}
		text = strings.TrimSpace(rest)
	}
	return nil
}

// checkSSHKeys wants lines of authorized_keys, at least one.
func checkSSHKeys(text string) error {
	keys := 0
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line)); err != nil {
			return errors.New("is neither an OpenPGP public key (-----BEGIN PGP PUBLIC KEY BLOCK-----) nor an SSH public key (ssh-ed25519 AAAA...)")
		}
		keys++
	}
	if keys == 0 {
		return errors.New("holds no key")
	}
	return nil
}
