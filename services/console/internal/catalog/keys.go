package catalog

import (
	"errors"
	"strings"

	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
	"golang.org/x/crypto/ssh"
)

func (v Verification) validate() error {
	for i, key := range v.Keys {
		if err := checkKey(key); err != nil {
			return refuse(Invalid, "spec.git.verification.keys[%d]: %s", i, err)
		}
	}
	return nil
}

// checkKey knows public keys. checkKey repeats nothing of its argument.
func checkKey(text string) error {
	text = strings.TrimSpace(text)
	switch {
	case strings.Contains(text, "PRIVATE KEY"):
		return errors.New("is a private key; write the public one, and trust this one no more: it was handed out")
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
