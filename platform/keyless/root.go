package keyless

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	// maxAuthorities and maxLogs of a root, and maxChain certificates of an authority: Sigstore's own has two and
	// three.
	maxAuthorities = 16
	maxLogs        = 16
	maxChain       = 5
	// hintBytes of the id of a key stand before a signature of a checkpoint.
	hintBytes = 4
	// RSA keys have so many bits: by smaller ones nothing is proven, and larger ones take long.
	minRSABits, maxRSABits = 2048, 8192
)

// Root is what is trusted: authorities that know signers, and logs and authorities of timestamps that say when.
type Root struct {
	authorities     []authority
	logs            []log
	certificateLogs []log       // none: certificates need not be in one
	timestamps      []authority // the first certificate may be the one that signs. None: timestamps are not looked at
}

// span is a time in which something is trusted; a zero end is none.
type span struct{ start, end time.Time }

func (s span) holds(at time.Time) bool {
	return !at.Before(s.start) && (s.end.IsZero() || !at.After(s.end))
}

type authority struct {
	span
	chain []*x509.Certificate // the root is the last
}

type log struct {
	span
	id   []byte
	hint []byte // of the key, in signatures of checkpoints
	key  crypto.PublicKey
}

type validFor struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// logDoc and authorityDoc are as trusted_root.json has them.
type logDoc struct {
	Key struct {
		Raw      []byte   `json:"rawBytes"`
		ValidFor validFor `json:"validFor"`
	} `json:"publicKey"`
	ID         keyID `json:"logId"`
	Checkpoint keyID `json:"checkpointKeyId"`
}

type keyID struct {
	ID []byte `json:"keyId"`
}

type authorityDoc struct {
	Chain struct {
		Certificates []encoded `json:"certificates"`
	} `json:"certChain"`
	ValidFor validFor `json:"validFor"`
}

// ParseRoot reads a trusted root as Sigstore writes it (trusted_root.json). The error says what is wrong, and repeats
// nothing of it.
func ParseRoot(text string) (r *Root, err error) {
	var doc struct {
		Logs            []logDoc       `json:"tlogs"`
		Authorities     []authorityDoc `json:"certificateAuthorities"`
		CertificateLogs []logDoc       `json:"ctlogs"`
		Timestamps      []authorityDoc `json:"timestampAuthorities"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return nil, errors.New("is not JSON that can be read. Write what trusted_root.json holds (`cosign trusted-root create`)")
	}
	const form = "needs certificateAuthorities and tlogs, at most %d and %d (of timestampAuthorities and ctlogs, too). Write what trusted_root.json holds (`cosign trusted-root create`)"
	if len(doc.Logs) == 0 || len(doc.Authorities) == 0 || max(len(doc.Logs), len(doc.CertificateLogs)) > maxLogs ||
		max(len(doc.Authorities), len(doc.Timestamps)) > maxAuthorities {
		return nil, fmt.Errorf(form, maxAuthorities, maxLogs)
	}
	r = &Root{}
	if r.logs, err = readLogs(doc.Logs, "log"); err != nil {
		return nil, err
	}
	if r.certificateLogs, err = readLogs(doc.CertificateLogs, "log of certificates"); err != nil {
		return nil, err
	}
	if r.authorities, err = readAuthorities(doc.Authorities, "authority"); err != nil {
		return nil, err
	}
	if r.timestamps, err = readAuthorities(doc.Timestamps, "authority of timestamps"); err != nil {
		return nil, err
	}
	return r, nil
}

func readLogs(docs []logDoc, name string) (logs []log, err error) {
	for i, l := range docs {
		key, err := x509.ParsePKIXPublicKey(l.Key.Raw)
		if err != nil {
			key, err = x509.ParsePKCS1PublicKey(l.Key.Raw) // Sigstore has one such log
		}
		if err != nil || len(l.ID.ID) < hintBytes {
			return nil, fmt.Errorf("has a %s (%d) without an id, or with a key that can't be read", name, i+1)
		}
		if l.Key.ValidFor.Start.IsZero() {
			return nil, fmt.Errorf("has a %s (%d) that does not say since when it is trusted (validFor.start)", name, i+1)
		}
		if err := checkKey(key); err != nil {
			return nil, fmt.Errorf("has a %s (%d) whose key %w", name, i+1, err)
		}
		hint := l.ID.ID[:hintBytes]
		if len(l.Checkpoint.ID) >= hintBytes {
			hint = l.Checkpoint.ID[:hintBytes]
		}
		logs = append(logs, log{l.Key.ValidFor.times(), l.ID.ID, hint, key})
	}
	return logs, nil
}

func readAuthorities(docs []authorityDoc, name string) (authorities []authority, err error) {
	for i, a := range docs {
		one := authority{span: a.ValidFor.times()}
		for _, c := range a.Chain.Certificates {
			cert, err := x509.ParseCertificate(c.Raw)
			if err != nil {
				return nil, fmt.Errorf("has an %s (%d) with a certificate that can't be read", name, i+1)
			}
			if err := checkKey(cert.PublicKey); err != nil {
				return nil, fmt.Errorf("has an %s (%d) with a certificate whose key %w", name, i+1, err)
			}
			one.chain = append(one.chain, cert)
		}
		if len(one.chain) == 0 || len(one.chain) > maxChain {
			return nil, fmt.Errorf("has an %s (%d) with no certificate, or more than %d", name, i+1, maxChain)
		}
		authorities = append(authorities, one)
	}
	return authorities, nil
}

func (v validFor) times() span { return span{v.Start, v.End} }

// checkKey refuses keys that can't sign, or are too weak.
func checkKey(key crypto.PublicKey) error {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if key.Curve.Params().BitSize < 256 {
			return errors.New("is of a curve of less than 256 bits")
		}
		return nil
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("is an RSA key of %d bits", bits)
		}
		return nil
	case ed25519.PublicKey:
		return nil
	}
	return errors.New("is of a kind that can't sign")
}

// verify tells whether a signature of a message is by a key: with SHA-256, or the hash of the curve's size.
func verify(key crypto.PublicKey, message, signature []byte) bool {
	sum := sha256.Sum256(message)
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if ecdsa.VerifyASN1(key, sum[:], signature) {
			return true
		}
		switch bits := key.Curve.Params().BitSize; {
		case bits > 384:
			sum := sha512.Sum512(message)
			return ecdsa.VerifyASN1(key, sum[:], signature)
		case bits > 256:
			sum := sha512.Sum384(message)
			return ecdsa.VerifyASN1(key, sum[:], signature)
		}
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	case ed25519.PublicKey:
		return ed25519.Verify(key, message, signature)
	}
	return false
}
