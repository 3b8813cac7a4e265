// Package delivery computes the digests by which a distributor and an agent agree on whether there is
// anything to do. Both sides must compute alike, over releases: the golden test holds the format.
package delivery

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Service is all that decides what an agent does for one service. A fact that is not in here may change without a
// cluster noticing: the commit, for one, when it did not touch the folder.
type Service struct {
	Name      string
	Namespace string // for objects that name none
	Path      string
	Artifact  string // digest of the content
	Config    string // revision of the rendered configuration; empty: none
	Options   string // how it is rendered and kept applied, in a canonical form; empty: all defaults
}

// Versions of the two formats: they keep digests of different formats apart.
const (
	serviceFormat = "fairlead service 1"
	setFormat     = "fairlead set 1"
)

// Digest is a digest as it is kept where there are many.
type Digest [sha256.Size]byte

// String is the digest as it is sent.
func (d Digest) String() string { return digestPrefix + hex.EncodeToString(d[:]) }

const digestPrefix = "sha256:"

// ParseDigest reads what String returns of a digest. False: the text is something else.
func ParseDigest(text string) (d Digest, ok bool) {
	const digits = "0123456789abcdef"
	encoded, ok := strings.CutPrefix(text, digestPrefix)
	if !ok || len(encoded) != hex.EncodedLen(len(d)) || strings.Trim(encoded, digits) != "" {
		return Digest{}, false
	}
	_, err := hex.Decode(d[:], []byte(encoded))
	return d, err == nil
}

// DigestOf changes when, and only when, there is something for the agent to do.
func DigestOf(s Service) (d Digest) {
	h := sha256.New()
	write(h, serviceFormat, s.Name, s.Namespace, s.Path, s.Artifact, s.Config)
	// A later field has a name before it, and is left out while it is empty: digests of before stay.
	if s.Options != "" {
		write(h, "options", s.Options)
	}
	h.Sum(d[:0])
	return d
}

// ServiceDigest is DigestOf as it is sent.
func ServiceDigest(s Service) string { return DigestOf(s).String() }

// SetDigest is the digest over all that a cluster has or should have, from service name to service
// digest. The digest does not depend on an order. Of nothing it is empty.
func SetDigest(services map[string]string) string {
	if len(services) == 0 {
		return ""
	}
	h := sha256.New()
	write(h, setFormat)
	for _, name := range slices.Sorted(maps.Keys(services)) {
		write(h, name, services[name])
	}
	return sum(h)
}

// OrderedSetDigest is SetDigest of services that come in the order of their names.
func OrderedSetDigest(services iter.Seq2[string, Digest]) string {
	h, some := sha256.New(), false
	write(h, setFormat)
	text := []byte(digestPrefix)
	var buffer []byte // one for all: each Sync comes through here
	for name, d := range services {
		some = true
		text = hex.AppendEncode(text[:len(digestPrefix)], d[:])
		buffer = appendPart(appendPart(buffer[:0], name), text)
		h.Write(buffer)
	}
	if !some {
		return ""
	}
	return sum(h)
}

func write(h hash.Hash, parts ...string) {
	var buffer []byte
	for _, p := range parts {
		buffer = appendPart(buffer, p)
	}
	h.Write(buffer)
}

// appendPart puts the length before a part, so that no two lists of parts run into the same bytes.
func appendPart[T string | []byte](b []byte, part T) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
}

func sum(h hash.Hash) string { return digestPrefix + hex.EncodeToString(h.Sum(nil)) }
