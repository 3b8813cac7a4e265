package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	digestPrefix = "sha256:"
	digestLen    = len(digestPrefix) + sha256.Size*2
)

// Digest names an artifact: "sha256:" and 64 lower-case hex digits of the uncompressed tar.
// A Digest that came from ParseDigest or SumDigest is safe as part of a file name and a URL.
type Digest string

// ParseDigest checks a digest that somebody else wrote.
func ParseDigest(s string) (Digest, error) {
	if len(s) != digestLen || !strings.HasPrefix(s, digestPrefix) {
		return "", fmt.Errorf("digest %.80q: want sha256: and 64 hex digits", s)
	}
	for _, c := range s[len(digestPrefix):] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", fmt.Errorf("digest %.80q: want sha256: and 64 lower-case hex digits", s)
		}
	}
	return Digest(s), nil
}

// SumDigest is the digest of a finished sha256 sum.
func SumDigest(sum []byte) Digest { return Digest(digestPrefix + hex.EncodeToString(sum)) }

// Hex is the digest without its algorithm.
func (d Digest) Hex() string { return strings.TrimPrefix(string(d), digestPrefix) }

func (d Digest) String() string { return string(d) }
