package signature

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"
)

// maxOpenPGPBytes of an armoured signature; one of RSA-16384 has about 4 KiB.
const maxOpenPGPBytes = 64 << 10

func (k *Keys) verifyOpenPGP(payload, armored []byte, now time.Time) (fingerprint string, err error) {
	defer recoverTo(&err)
	signatures, err := readOpenPGP(armored)
	if err != nil {
		return "", err
	}
	return k.oneOf(payload, signatures, packet.SigTypeBinary, now)
}

// oneOf is content with one good signature.
func (k *Keys) oneOf(payload []byte, signatures []*packet.Signature, kind packet.SignatureType, now time.Time) (fingerprint string, err error) {
	for _, s := range signatures {
		if fingerprint, err = k.judge(payload, s, kind, now); err == nil {
			return fingerprint, nil
		}
	}
	return "", err
}

func (k *Keys) verifyCleartext(text []byte, now time.Time) (plain []byte, fingerprint string, err error) {
	defer recoverTo(&err)
	block, _ := clearsign.Decode(text)
	if block == nil {
		return nil, "", errors.New("it is not signed in clear with OpenPGP")
	}
	signatures, err := readPackets(block.ArmoredSignature.Body)
	if err != nil {
		return nil, "", err
	}
	if fingerprint, err = k.oneOf(block.Bytes, signatures, packet.SigTypeText, now); err != nil {
		return nil, "", err
	}
	return block.Plaintext, fingerprint, nil
}

// readOpenPGP returns the signatures of one armoured block, at least one.
func readOpenPGP(armored []byte) (signatures []*packet.Signature, err error) {
	if len(armored) > maxOpenPGPBytes {
		return nil, fmt.Errorf("it is larger than %d KiB", maxOpenPGPBytes>>10)
	}
	block, err := armor.Decode(bytes.NewReader(armored))
	if err != nil || block.Type != "PGP SIGNATURE" {
		return nil, errors.New("its armour is damaged")
	}
	return readPackets(block.Body)
}

// readPackets returns the signatures of a block, at least one.
func readPackets(body io.Reader) (signatures []*packet.Signature, err error) {
	packets := packet.NewReader(body)
	for {
		p, err := packets.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		s, ok := p.(*packet.Signature)
		if err != nil || !ok || s.IssuerKeyId == nil || len(signatures) == maxSignatures {
			return nil, errors.New("it is damaged, or of a kind that Fairlead does not know")
		}
		signatures = append(signatures, s)
	}
	if len(signatures) == 0 {
		return nil, errors.New("it is empty")
	}
	return signatures, nil
}

// judge says whether one signature counts. The key is looked at as it is now and not, as the library
// would, as it was at the time that the signature names: what has expired or was revoked must sign nothing
// that is said to be older, and what was extended still stands for what it signed before.
func (k *Keys) judge(payload []byte, s *packet.Signature, kind packet.SignatureType, now time.Time) (string, error) {
	entities := k.pgp.EntitiesById(*s.IssuerKeyId)
	if len(entities) == 0 {
		return "", refuse(Unknown, "is signed with OpenPGP key %s, which is not among the source's verification keys", issuer(s))
	}
	config := &packet.Config{Time: func() time.Time { return now }}
	key, fingerprint, err := merged(entities, *s.IssuerKeyId, now, config)
	switch {
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		return "", refuse(Revoked, "is signed with OpenPGP key %s, which was revoked", fingerprint)
	case errors.Is(err, pgperrors.ErrKeyExpired):
		return "", refuse(Expired, "is signed with OpenPGP key %s, which has expired", fingerprint)
	case err != nil:
		return "", refuse(Invalid, "is signed with OpenPGP key %s, which may not sign or is too weak", fingerprint)
	}
	if s.SigType != kind || config.RejectMessageHashAlgorithm(s.Hash) || critical(s) {
		return "", refuse(Invalid, "has a signature by OpenPGP key %s that is too weak, or of another kind", fingerprint)
	}
	h, err := s.PrepareVerify()
	if err != nil {
		return "", errors.New("it is damaged")
	}
	h.Write(payload)
	if err := key.PublicKey.VerifySignature(h, s); err != nil {
		return "", refuse(Invalid, "has a signature by OpenPGP key %s that does not fit: the content was changed after it was signed", fingerprint)
	}
	if s.SigExpired(now) {
		return "", refuse(Expired, "has a signature by OpenPGP key %s that has expired or is of the future", fingerprint)
	}
	return fingerprint, nil
}

// merged is the key or subkey by its id. A key that was given twice, as it was and as it is, is one key: it is revoked
// if any version is, and else may sign if any may.
func merged(versions []*openpgp.Entity, id uint64, now time.Time, config *packet.Config) (found openpgp.Key, fingerprint string, err error) {
	refused := error(nil)
	for _, e := range versions {
		key, err := signingKey(e, id, now, config)
		switch {
		case errors.Is(err, pgperrors.ErrKeyRevoked):
			return key, fingerprintOfKey(e), err
		case err != nil && found.PublicKey == nil:
			fingerprint, refused = fingerprintOfKey(e), err
		case err == nil && found.PublicKey == nil:
			found, fingerprint, refused = key, fingerprintOfKey(e), nil
		}
	}
	return found, fingerprint, refused
}

func fingerprintOfKey(e *openpgp.Entity) string { return fmt.Sprintf("%X", e.PrimaryKey.Fingerprint) }

// signingKey finds the key or subkey by its id, if it may sign now.
func signingKey(e *openpgp.Entity, id uint64, now time.Time, config *packet.Config) (openpgp.Key, error) {
	if _, err := e.VerifyPrimaryKey(now, config); err != nil {
		return openpgp.Key{}, err
	}
	for _, sub := range e.Subkeys {
		if sub.PublicKey.KeyId != id {
			continue
		}
		if _, err := sub.Verify(now, config); err != nil {
			return openpgp.Key{}, err
		}
	}
	key, ok := e.SigningKeyById(now, id, config)
	if !ok {
		return openpgp.Key{}, errors.New("the key may not sign")
	}
	return key, nil
}

// critical tells whether a signature says something that must not be ignored, and that nobody here knows.
func critical(s *packet.Signature) bool {
	for _, n := range s.Notations {
		if n.IsCritical {
			return true
		}
	}
	return false
}

func issuer(s *packet.Signature) string {
	if len(s.IssuerFingerprint) > 0 {
		return fmt.Sprintf("%X", s.IssuerFingerprint)
	}
	return fmt.Sprintf("%016X", *s.IssuerKeyId)
}
