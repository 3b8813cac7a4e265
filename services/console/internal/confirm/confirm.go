// Package confirm makes sure that somebody who does something dangerous has seen what comes of it. A token says that
// a caller was told of exactly these consequences; it is stateless, so any console takes it back.
package confirm

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"time"

	"fairlead.dev/services/console/internal/seal"
)

// lifetime of a token: to read, think and answer.
const lifetime = 10 * time.Minute

const purpose = "confirmation"

// Desk hands tokens out and takes them back.
type Desk struct {
	box *seal.Box
	now func() time.Time
}

// New returns a desk. Desks with the same keys take each other's tokens.
func New(box *seal.Box, now func() time.Time) *Desk { return &Desk{box: box, now: now} }

// Token is for who was told what is at stake: the caller, what it wants, and the etags that it is about.
func (d *Desk) Token(subject string, stake []string) string {
	sum := sumOf(subject, stake)
	plain := binary.BigEndian.AppendUint64(sum[:], uint64(d.now().Unix()))
	return base64.RawURLEncoding.EncodeToString(d.box.Seal(purpose, plain))
}

// Holds says whether a token is of this caller, for the same at stake, and not too old.
func (d *Desk) Holds(token, subject string, stake []string) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return false
	}
	plain, err := d.box.Open(purpose, sealed)
	if err != nil || len(plain) != sha256.Size+8 {
		return false
	}
	sum := sumOf(subject, stake)
	age := d.now().Sub(time.Unix(int64(binary.BigEndian.Uint64(plain[sha256.Size:])), 0))
	return subtle.ConstantTimeCompare(plain[:sha256.Size], sum[:]) == 1 && age < lifetime
}

// sumOf keeps the parts apart: each has its length before it.
func sumOf(subject string, stake []string) [sha256.Size]byte {
	var text []byte
	for _, part := range append([]string{subject}, stake...) {
		text = binary.BigEndian.AppendUint64(text, uint64(len(part)))
		text = append(text, part...)
	}
	return sha256.Sum256(text)
}
