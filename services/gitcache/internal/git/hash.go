// Package git has the words of Git that the whole gitcache speaks: what objects are called, and which kinds of them
// there are. The package reads and writes nothing: packs are for package pack, and Git's protocol for fetch/gitwire.
package git

import (
	"bytes"
	"encoding/hex"
)

const (
	// HashBytes and HashDigits are the lengths of a hash and of its text. Repositories whose objects have names of
	// 32 bytes (SHA-256) are refused when they are listed.
	HashBytes  = 20
	HashDigits = 2 * HashBytes
)

// Hash is the name of an object: the SHA-1 of its kind, its size and its content. The zero value names no object.
//
// Hashes are stored in files, and are sent to other replicas, as encoding/json writes an array: as 20 numbers. A
// method MarshalText or MarshalJSON would change both formats, so that replicas of two releases did not know each
// other's heads; do not add one.
type Hash [HashBytes]byte

// ParseHash reads 40 hexadecimal digits, small or capital. ok tells whether s is that; a hash of another text is zero.
func ParseHash(s string) (h Hash, ok bool) {
	if len(s) != HashDigits {
		return Hash{}, false
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return Hash{}, false
	}
	return h, true
}

// HashOf is the hash that s says; zero, if it says none.
func HashOf(s string) Hash {
	h, _ := ParseHash(s)
	return h
}

// IsHash tells whether ParseHash takes s.
func IsHash(s string) bool {
	_, ok := ParseHash(s)
	return ok
}

// IsZero tells whether h names no object.
func (h Hash) IsZero() bool { return h == Hash{} }

// Compare orders hashes as their texts are ordered.
func (h Hash) Compare(other Hash) int { return bytes.Compare(h[:], other[:]) }

// String is h in 40 hexadecimal digits.
func (h Hash) String() string {
	var text [HashDigits]byte
	hex.Encode(text[:], h[:])
	return string(text[:])
}

// Short is the beginning of h, as messages show it.
func (h Hash) Short() string { return h.String()[:8] }
