// Package delivery computes the digests by which a distributor and an agent agree on whether there is
// anything to do. Both sides must compute alike, over releases: the golden test holds the format.
package delivery

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"slices"
)

// Service is all that decides what an agent does for one service. What is not in here may change
// without a cluster noticing: the commit, for one, when it did not touch the folder.
type Service struct {
	Name      string
	Namespace string // for objects that name none
	Path      string
	Artifact  string // digest of the content
	Config    string // revision of the rendered configuration; empty: none
}

// Versions of the two formats: they keep digests of different formats apart.
const (
	serviceFormat = "fairlead service 1"
	setFormat     = "fairlead set 1"
)

// ServiceDigest changes when, and only when, there is something for the agent to do.
func ServiceDigest(s Service) string {
	h := sha256.New()
	write(h, serviceFormat, s.Name, s.Namespace, s.Path, s.Artifact, s.Config)
	return sum(h)
}

// SetDigest is the digest over all that a cluster has or should have, from service name to service
// digest. It does not depend on an order. Of nothing it is empty.
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

// write adds parts with their lengths, so that no two lists of parts run into the same bytes.
func write(h hash.Hash, parts ...string) {
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
}

func sum(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }
