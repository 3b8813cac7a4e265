package signed

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512" // P-384 and P-521
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// minRSABits of a trusted RSA key.
const minRSABits = 2048

// publicKey is trusted.
type publicKey struct {
	key         crypto.PublicKey
	fingerprint string
}

// parsePublicKey reads what cosign.pub holds.
func parsePublicKey(text string) (publicKey, error) {
	if strings.Contains(text, "PRIVATE KEY") {
		return publicKey{}, errors.New("is a private key. Write the public one, and use this one no more")
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" || strings.TrimSpace(string(rest)) != "" {
		return publicKey{}, errors.New("is not one public key in PEM (-----BEGIN PUBLIC KEY-----). Write what cosign.pub holds")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return publicKey{}, errors.New("is a damaged public key. Write what cosign.pub holds")
	}
	sum := sha256.Sum256(block.Bytes)
	return publicKey{key, "sha256:" + hex.EncodeToString(sum[:])}, checkKind(key)
}

// checkKind refuses keys that can't sign, or are too weak.
func checkKind(key crypto.PublicKey) error {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if key.Curve.Params().BitSize < 256 {
			return errors.New("is an ECDSA key of less than 256 bits. Use P-256 or a larger curve")
		}
		return nil
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits {
			return fmt.Errorf("is an RSA key of %d bits. Use one of at least %d", bits, minRSABits)
		}
		return nil
	case ed25519.PublicKey:
		return nil
	}
	return errors.New("is of a kind that can't sign. Use ECDSA, Ed25519 or RSA")
}

// verify tells whether a signature of a message is by this key.
func (k publicKey) verify(message, signature []byte) bool {
	switch key := k.key.(type) {
	case *ecdsa.PublicKey:
		for _, kind := range hashes(key) {
			if ecdsa.VerifyASN1(key, digest(kind, message), signature) {
				return true
			}
		}
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest(crypto.SHA256, message), signature) == nil
	case ed25519.PublicKey:
		return ed25519.Verify(key, message, signature)
	}
	return false
}

// hashes that are used with a curve: cosign's own format has SHA-256 with all of them, and bundles the one of the
// curve's size.
func hashes(key *ecdsa.PublicKey) []crypto.Hash {
	switch bits := key.Curve.Params().BitSize; {
	case bits > 384:
		return []crypto.Hash{crypto.SHA256, crypto.SHA512}
	case bits > 256:
		return []crypto.Hash{crypto.SHA256, crypto.SHA384}
	}
	return []crypto.Hash{crypto.SHA256}
}

func digest(kind crypto.Hash, message []byte) []byte {
	h := kind.New()
	h.Write(message)
	return h.Sum(nil)
}
