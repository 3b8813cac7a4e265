package signature

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
	"golang.org/x/crypto/ssh"
)

// Keys are trusted. For one goroutine: checked self-signatures are remembered in them.
type Keys struct {
	pgp openpgp.EntityList
	ssh map[string]ssh.PublicKey // by their form on the wire
}

// ParseKeys reads public keys: ASCII-armoured OpenPGP, or lines as in authorized_keys. The error says
// which is wrong and repeats nothing of it.
func ParseKeys(texts []string) (*Keys, error) {
	k := &Keys{ssh: map[string]ssh.PublicKey{}}
	for i, text := range texts {
		if err := k.add(strings.TrimSpace(text)); err != nil {
			return nil, fmt.Errorf("verification key %d %w", i+1, err)
		}
	}
	return k, nil
}

func (k *Keys) add(text string) error {
	switch {
	case strings.Contains(text, "PRIVATE KEY"):
		return errors.New("is a private key. Write the public one, and use this one no more")
	case strings.HasPrefix(text, "-----BEGIN PGP "):
		return k.addOpenPGP(text)
	}
	return k.addSSH(text)
}

// Has tells whether one of the keys has a fingerprint.
func (k *Keys) Has(fingerprint string) bool {
	for _, key := range k.ssh {
		if ssh.FingerprintSHA256(key) == fingerprint {
			return true
		}
	}
	return slices.ContainsFunc(k.pgp, func(e *openpgp.Entity) bool { return fingerprintOfKey(e) == fingerprint })
}

const armorEnd = "-----END PGP PUBLIC KEY BLOCK-----"

// addOpenPGP takes one armoured block after the other.
func (k *Keys) addOpenPGP(text string) (err error) {
	defer recoverTo(&err)
	for text != "" {
		at := strings.Index(text, armorEnd)
		if at < 0 {
			return errors.New("is not a whole OpenPGP public key. Write what `gpg --export --armor KEY` prints")
		}
		one := text[:at+len(armorEnd)]
		text = strings.TrimSpace(text[len(one):])
		block, err := armor.Decode(strings.NewReader(one + "\n"))
		if err != nil {
			return errors.New("is a damaged OpenPGP public key. Write what `gpg --export --armor KEY` prints")
		}
		ring, err := openpgp.ReadKeyRing(block.Body)
		if err != nil || len(ring) == 0 {
			return errors.New("is an OpenPGP public key that is damaged or of a kind that Fairlead does not know")
		}
		k.pgp = append(k.pgp, ring...)
	}
	return nil
}

// minRSABits of a trusted RSA key.
const minRSABits = 2048

func (k *Keys) addSSH(text string) error {
	found := 0
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
		switch {
		case err != nil:
			return errors.New("is neither an OpenPGP public key (-----BEGIN PGP PUBLIC KEY BLOCK-----) nor an SSH public key (ssh-ed25519 AAAA...)")
		case len(options) > 0:
			return errors.New("has options before the SSH public key, which Fairlead does not know. Write the key alone")
		case sshFormats(key.Type()) == nil:
			return fmt.Errorf("is an SSH key of type %s, which can't sign for Fairlead. Use ed25519, ecdsa or rsa", key.Type())
		case key.Type() == ssh.KeyAlgoRSA && rsaBits(key) < minRSABits:
			return fmt.Errorf("is an RSA key of %d bits. Use one of at least %d, or ed25519", rsaBits(key), minRSABits)
		}
		k.ssh[string(key.Marshal())] = key
		found++
	}
	if found == 0 {
		return errors.New("holds no key")
	}
	return nil
}

func rsaBits(key ssh.PublicKey) int {
	var w struct {
		Name string
		E    []byte
		N    []byte
	}
	if err := ssh.Unmarshal(key.Marshal(), &w); err != nil {
		return 0
	}
	return len(bytes.TrimLeft(w.N, "\x00")) * 8
}
