// Package signature tells who signed a commit or an annotated tag, as Git signs them: OpenPGP and SSH. It tells the
// same of a text that is signed in clear with OpenPGP.
//
// Invariants: only the keys that were given count; what was signed is the object's own bytes without
// its signatures, so the caller hands in bytes that were hashed against the object's name; a key that
// has expired or was revoked by now signs nothing, whenever it says it did.
package signature

import (
	"errors"
	"fmt"
	"time"
)

// Kind sorts refusals for metrics; a bounded set.
type Kind string

// Why an object is not accepted.
const (
	Unsigned Kind = "unsigned"
	Unknown  Kind = "unknown_key" // by a key that is not trusted
	Expired  Kind = "expired"     // the key or the signature
	Revoked  Kind = "revoked"
	Invalid  Kind = "invalid" // does not fit the object, can't be read, or is made with weak algorithms
)

// Refusal is why an object is not accepted. Its text goes on after "commit 1234 ".
type Refusal struct {
	Kind Kind
	text string
}

func (r *Refusal) Error() string { return r.text }

func refuse(kind Kind, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, text: fmt.Sprintf(format, args...)}
}

// Refuse makes the refusal of another form of signature.
func Refuse(kind Kind, format string, args ...any) *Refusal { return refuse(kind, format, args...) }

// Advice is the next step.
func (r *Refusal) Advice() string { return advice[r.Kind] }

var advice = map[Kind]string{ //nolint:gochecknoglobals // a table
	Unsigned: "Sign it with one of the source's verification keys",
	Unknown:  "Sign it with one of the source's verification keys, or add this key to them if you trust it",
	Expired:  "Extend the key and write it into the source again, or sign with another",
	Revoked:  "Sign with another key",
	Invalid:  "Sign it again",
}

// maxSignatures of one object are looked at: people sign once, or twice while they change keys.
const maxSignatures = 4

// Commit tells the fingerprint of the trusted key that signed a commit, raw as it was hashed; or why it is
// not accepted.
func (k *Keys) Commit(raw []byte, now time.Time) (fingerprint string, no *Refusal) {
	payload, signatures := splitHeader(raw)
	return k.anyOf(payload, signatures, now)
}

// Tag is Commit for an annotated tag that is shown under a name. The name is part of what is signed: a
// signed tag that is shown under another one says nothing about that one.
func (k *Keys) Tag(raw []byte, name string, now time.Time) (fingerprint string, no *Refusal) {
	payload, signature := splitTail(raw)
	if signature == nil {
		return "", refuse(Unsigned, "is not signed")
	}
	payload, _ = splitHeader(payload)
	fingerprint, no = k.anyOf(payload, [][]byte{signature}, now)
	if inner := tagName(raw); no == nil && inner != name {
		return "", refuse(Invalid, "is signed as tag %q and not under this name", short(inner))
	}
	return fingerprint, no
}

// NoTag is the refusal of what is no annotated tag where one must be signed.
func NoTag() *Refusal {
	return refuse(Unsigned, "is not an annotated tag, and the source wants signed tags")
}

// Cleartext tells what a text says that is signed in clear with OpenPGP, and who signed it. What stands around the
// signed text is not in it.
func (k *Keys) Cleartext(text []byte, now time.Time) (plain []byte, fingerprint string, no *Refusal) {
	plain, fingerprint, err := k.verifyCleartext(text, now)
	if known, ok := errors.AsType[*Refusal](err); ok {
		return nil, "", known
	}
	if err != nil {
		return nil, "", refuse(Invalid, "has a signature that can't be read: %v", err)
	}
	return plain, fingerprint, nil
}

// anyOf is content with one good signature, and else says what is wrong with the last.
func (k *Keys) anyOf(payload []byte, signatures [][]byte, now time.Time) (fingerprint string, no *Refusal) {
	if len(signatures) > maxSignatures {
		return "", refuse(Invalid, "has %d signatures, more than the limit of %d", len(signatures), maxSignatures)
	}
	no = refuse(Unsigned, "is not signed")
	for _, s := range signatures {
		if fingerprint, no = k.one(payload, s, now); no == nil {
			return fingerprint, nil
		}
	}
	return "", no
}

func (k *Keys) one(payload, signature []byte, now time.Time) (fingerprint string, no *Refusal) {
	var err error
	switch formatOf(signature) {
	case formatOpenPGP:
		fingerprint, err = k.verifyOpenPGP(payload, signature, now)
	case formatSSH:
		fingerprint, err = k.verifySSH(payload, signature)
	case formatX509:
		return "", refuse(Invalid, "is signed with X.509, which Fairlead does not check")
	default:
		return "", refuse(Invalid, "has a signature of an unknown kind")
	}
	if err == nil {
		return fingerprint, nil
	}
	if known, ok := errors.AsType[*Refusal](err); ok {
		return "", known
	}
	return "", refuse(Invalid, "has a signature that can't be read: %v", err)
}

// recoverTo turns a panic in a decoder of foreign bytes into an error.
func recoverTo(err *error) {
	if p := recover(); p != nil {
		*err = errors.New("the decoder gave up")
	}
}
