package signature

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/crypto/ssh"
)

// The format is described in OpenSSH's PROTOCOL.sshsig.
const (
	sshBegin     = "-----BEGIN SSH SIGNATURE-----"
	sshEnd       = "-----END SSH SIGNATURE-----"
	sshMagic     = "SSHSIG"
	sshVersion   = 1
	sshNamespace = "git" // the namespace of Git; a signature for something else must not pass for a commit
)

// sshFormats are the signature algorithms that are accepted of a type of key: none with SHA-1, and nothing
// of certificates.
func sshFormats(keyType string) []string {
	switch keyType {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		return []string{keyType}
	case ssh.KeyAlgoRSA:
		return []string{ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512}
	}
	return nil
}

// sshSignature is what follows the magic.
type sshSignature struct {
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  string
	Hash      string
	Signature []byte
}

func (k *Keys) verifySSH(payload, armored []byte) (fingerprint string, err error) {
	defer recoverTo(&err)
	s, err := parseSSH(armored)
	if err != nil {
		return "", err
	}
	key, trusted := k.ssh[string(s.PublicKey)]
	if !trusted {
		return "", refuse(Unknown, "is signed with SSH key %s, which is not among the source's verification keys", fingerprintOf(s.PublicKey))
	}
	if s.Namespace != sshNamespace {
		return "", refuse(Invalid, "has an SSH signature that was made for %q and not for Git", short(s.Namespace))
	}
	digest, err := digestOf(s.Hash, payload)
	if err != nil {
		return "", err
	}
	var signature ssh.Signature
	if err := ssh.Unmarshal(s.Signature, &signature); err != nil {
		return "", errors.New("its inner part is damaged")
	}
	if !slices.Contains(sshFormats(key.Type()), signature.Format) {
		return "", refuse(Invalid, "is signed with SSH key %s by %q, which Fairlead does not accept", ssh.FingerprintSHA256(key), short(signature.Format))
	}
	signed := append([]byte(sshMagic), ssh.Marshal(struct{ Namespace, Reserved, Hash, Digest string }{
		s.Namespace, s.Reserved, s.Hash, string(digest),
	})...)
	if err := key.Verify(signed, &signature); err != nil {
		return "", refuse(Invalid, "has a signature by SSH key %s that does not fit: the content was changed after it was signed", ssh.FingerprintSHA256(key))
	}
	return ssh.FingerprintSHA256(key), nil
}

// parseSSH reads an armoured signature.
func parseSSH(armored []byte) (s sshSignature, err error) {
	text := bytes.TrimSpace(armored)
	text, began := bytes.CutPrefix(text, []byte(sshBegin))
	text, ended := bytes.CutSuffix(text, []byte(sshEnd))
	if !began || !ended {
		return s, errors.New("the SSH signature is cut short")
	}
	raw, err := base64.StdEncoding.DecodeString(string(bytes.Join(bytes.Fields(text), nil)))
	if err != nil {
		return s, errors.New("the SSH signature is not base64")
	}
	raw, ok := bytes.CutPrefix(raw, []byte(sshMagic))
	if !ok {
		return s, errors.New("it is no SSH signature")
	}
	if err := ssh.Unmarshal(raw, &s); err != nil {
		return s, errors.New("the SSH signature is damaged")
	}
	if s.Version != sshVersion {
		return s, fmt.Errorf("the SSH signature has version %d", s.Version)
	}
	return s, nil
}

func digestOf(hash string, payload []byte) ([]byte, error) {
	switch hash {
	case "sha256":
		d := sha256.Sum256(payload)
		return d[:], nil
	case "sha512":
		d := sha512.Sum512(payload)
		return d[:], nil
	}
	return nil, fmt.Errorf("the SSH signature is made with %q", short(hash))
}

// fingerprintOf is that of a key as it is on the wire, whatever kind of key it is.
func fingerprintOf(wire []byte) string {
	sum := sha256.Sum256(wire)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// short keeps what others wrote from flooding a message.
func short(s string) string { return s[:min(len(s), 64)] }
